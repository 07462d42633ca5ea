//! What `git push --porcelain` says about the one ref that was pushed.

/// What the remote made of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The branch is now at the commit.
    Accepted,
    /// The branch was already at the commit.
    Current,
    /// The branch has moved on: the commit does not descend from where it is now.
    Behind {
        /// In the words of git.
        reason: String,
    },
    /// The remote does not want it: a hook, a protected branch, a rule.
    Refused {
        /// Whether the branch is protected against pushes.
        protected: bool,
        /// In the words of the remote.
        reason: String,
    },
    /// The remote did not say, or said that it failed itself. The push may have arrived.
    Unknown {
        /// What is known.
        reason: String,
    },
}

/// The longest reason that is passed on.
const LONGEST_REASON: usize = 300;

/// Somebody else was faster, in the words of several servers.
const RACES: [&str; 8] = [
    "fetch first",
    "non-fast-forward",
    "stale info",
    "cannot lock ref",
    "failed to lock",
    "failed to update ref",
    "incorrect old value",
    "reference already exists",
];

/// Servers that failed, and say so as if they had refused.
const FAILURES: [&str; 4] = ["failure", "internal server error", "unpacker error", "try again"];

/// How servers speak of branches that may not be pushed to.
const PROTECTION: [&str; 5] =
    ["protected branch", "protected ref", "GH006", "GH013", "not allowed to push code to protected"];

/// Reads the answer about a ref. `None` when there is no line about it.
///
/// `told` is what git and the remote said besides: hooks explain themselves there.
pub(super) fn parse(stdout: &str, name: &str, told: &str) -> Option<Answer> {
    stdout.lines().find_map(|line| {
        let mut fields = line.splitn(3, '\t');
        let (flag, refs, summary) = (fields.next()?, fields.next()?, fields.next()?);
        let (_, target) = refs.split_once(':')?;
        (target == name).then(|| answer(flag, summary, told))
    })
}

fn answer(flag: &str, summary: &str, told: &str) -> Answer {
    match flag {
        // A plus is a forced update, which no push of ours asks for.
        " " | "" | "*" | "+" => Answer::Accepted,
        "=" => Answer::Current,
        _ => rejection(summary, told),
    }
}

fn rejection(summary: &str, told: &str) -> Answer {
    let (kind, reason) = summary.split_once(" (").unwrap_or((summary, ""));
    // A remote may send anything, terminal sequences too.
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    let reason: String =
        reason.strip_suffix(')').unwrap_or(reason).chars().take(LONGEST_REASON).map(visible).collect();
    let says = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if kind == "[remote failure]" || (kind == "[remote rejected]" && says_exactly(&reason, &FAILURES)) {
        return Answer::Unknown { reason };
    }
    if kind == "[rejected]" || says(&RACES) {
        return Answer::Behind { reason };
    }
    let protected = PROTECTION.iter().any(|word| reason.contains(word) || told.contains(word));
    Answer::Refused { protected, reason }
}

fn says_exactly(reason: &str, words: &[&str]) -> bool {
    words.iter().any(|word| reason.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, told: &str) -> Option<Answer> {
        parse(&format!("To https://host/x.git\n{line}\nDone\n"), "refs/heads/main", told)
    }

    #[test]
    fn accepted_and_current() {
        assert_eq!(read(" \tabc:refs/heads/main\t1..2", ""), Some(Answer::Accepted));
        assert_eq!(read("*\tabc:refs/heads/main\t[new branch]", ""), Some(Answer::Accepted));
        assert_eq!(read("=\tabc:refs/heads/main\t[up to date]", ""), Some(Answer::Current));
        assert_eq!(read(" \tabc:refs/heads/main2\t1..2", ""), None);
        assert_eq!(read("", ""), None);
    }

    #[test]
    fn a_lost_race_is_told_from_a_refusal() {
        for summary in [
            "[rejected] (fetch first)",
            "[rejected] (non-fast-forward)",
            "[rejected] (something new)",
            "[remote rejected] (cannot lock ref 'refs/heads/main': is at 1 but expected 2)",
            "[remote rejected] (failed to update ref)",
            "[remote rejected] (incorrect old value provided)",
            "[remote rejected] (cannot lock ref 'refs/heads/main': reference already exists)",
        ] {
            let answer = read(&format!("!\tabc:refs/heads/main\t{summary}"), "").unwrap();
            assert!(matches!(answer, Answer::Behind { .. }), "{summary}: {answer:?}");
        }
        for summary in ["[remote failure] (remote failed to report status)", "[remote rejected] (failure)"] {
            let answer = read(&format!("!\tabc:refs/heads/main\t{summary}"), "").unwrap();
            assert!(matches!(answer, Answer::Unknown { .. }), "{summary}: {answer:?}");
        }
    }

    #[test]
    fn refusals_say_whether_the_branch_is_protected() {
        let declined = "!\tabc:refs/heads/main\t[remote rejected] (pre-receive hook declined)";
        let reason = || "pre-receive hook declined".to_owned();
        assert_eq!(
            read(declined, "remote: no"),
            Some(Answer::Refused { protected: false, reason: reason() })
        );
        let told = "remote: GitLab: You are not allowed to push code to protected branches on this project.";
        assert_eq!(read(declined, told), Some(Answer::Refused { protected: true, reason: reason() }));
        let escape = read("!\tabc:refs/heads/main\t[remote rejected] (\u{1b}[31mno)", "");
        assert_eq!(escape, Some(Answer::Refused { protected: false, reason: " [31mno".to_owned() }));
        let github = "!\tabc:refs/heads/main\t[remote rejected] (protected branch hook declined)";
        assert!(matches!(read(github, ""), Some(Answer::Refused { protected: true, .. })));
    }
}
