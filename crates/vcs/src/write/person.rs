//! Who wrote a commit, and when.

use jiff::{Timestamp, tz::Offset};

/// Author or committer of a commit.
///
/// Names come from clusters and identity providers and are cleaned, not trusted: what could end the field or begin a
/// new header (`<`, `>`, line breaks, other control characters) is taken out, as `git` does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Name, for people.
    pub name: String,
    /// Mail address; may be empty.
    pub email: String,
    /// When; whole seconds are kept.
    pub time: Timestamp,
    /// Where, as the offset from UTC; whole minutes are kept.
    pub offset: Offset,
}

/// A person that cannot be recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PersonError {
    /// Neither a name nor an address is left.
    #[error("a commit needs the name or the mail address of its {role}")]
    Nameless {
        /// Author or committer.
        role: &'static str,
    },
    /// Git counts seconds from 1970 on.
    #[error("the time of the {role} lies before 1970; check the clock")]
    BeforeEpoch {
        /// Author or committer.
        role: &'static str,
    },
}

impl Person {
    /// Somebody, in UTC.
    pub fn new(name: impl Into<String>, email: impl Into<String>, time: Timestamp) -> Self {
        Self { name: name.into(), email: email.into(), time, offset: Offset::UTC }
    }

    /// The value of the header for this role: `name <email> seconds offset`.
    pub(super) fn header(&self, role: &'static str) -> Result<String, PersonError> {
        let email: String = clean(&self.email).chars().filter(|c| !c.is_whitespace()).collect();
        let mut name = clean(&self.name);
        if name.is_empty() {
            email.split('@').next().unwrap_or_default().clone_into(&mut name);
        }
        if name.is_empty() {
            return Err(PersonError::Nameless { role });
        }
        let seconds = self.time.as_second();
        if seconds < 0 {
            return Err(PersonError::BeforeEpoch { role });
        }
        let minutes = self.offset.seconds() / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
        Ok(format!("{name} <{email}> {seconds} {sign}{hours:02}{minutes:02}"))
    }
}

/// Takes out what a header cannot hold, and the punctuation around a name that `git` drops as well.
fn clean(text: &str) -> String {
    let spaced = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let kept: String = spaced.filter(|c| !matches!(c, '<' | '>' | '\u{2028}' | '\u{2029}')).collect();
    let words: Vec<&str> = kept.split_whitespace().collect();
    let crud = |c: char| matches!(c, ' ' | '.' | ',' | ':' | ';' | '"' | '\\' | '\'');
    words.join(" ").trim_matches(crud).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, email: &str) -> Result<String, PersonError> {
        let time = Timestamp::from_second(1_700_000_000).unwrap();
        Person::new(name, email, time).header("author")
    }

    #[test]
    fn a_hostile_name_stays_one_field() {
        assert_eq!(header("Ada", "ada@x.org").unwrap(), "Ada <ada@x.org> 1700000000 +0000");
        assert_eq!(
            header("a\ntree 0000\0<root@x>", "b>\n<c @d").unwrap(),
            "a tree 0000 root@x <bc@d> 1700000000 +0000"
        );
        assert_eq!(
            header("system:serviceaccount:a:b", "").unwrap(),
            "system:serviceaccount:a:b <> 1700000000 +0000"
        );
        assert_eq!(header(" <>\n", "ada@x.org").unwrap(), "ada <ada@x.org> 1700000000 +0000");
        assert_eq!(header("\u{85}...", "<>"), Err(PersonError::Nameless { role: "author" }));
    }

    #[test]
    fn offsets_and_old_times() {
        let mut person = Person::new("a", "", Timestamp::from_second(5).unwrap());
        person.offset = Offset::from_seconds(-(3 * 3600 + 30 * 60)).unwrap();
        assert_eq!(person.header("author").unwrap(), "a <> 5 -0330");
        person.offset = Offset::constant(5);
        assert_eq!(person.header("author").unwrap(), "a <> 5 +0500");
        person.time = Timestamp::from_second(-1).unwrap();
        assert_eq!(person.header("committer"), Err(PersonError::BeforeEpoch { role: "committer" }));
    }
}
