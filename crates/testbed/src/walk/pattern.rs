//! Patterns of schemas: whether a text matches, and texts that do.
//!
//! Covers what schemas use of RE2: literals, classes, groups, alternatives, anchors, repetition. A pattern with
//! anything else is unknown, and the walk then expects either answer.

/// A parsed pattern, unanchored as in JSON schema.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Node);

#[derive(Clone, Debug)]
enum Node {
    Set { negated: bool, ranges: Vec<(char, char)> },
    Start,
    End,
    Concat(Vec<Node>),
    Either(Vec<Node>),
    Repeat { of: Box<Node>, least: usize, most: Option<usize> },
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text.chars().collect::<Vec<_>>().into_iter().peekable() };
        let node = parser.either()?;
        parser.rest.peek().is_none().then_some(Self(node))
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        (0..=text.len()).any(|from| ends(&self.0, &text, from, &mut |_| true))
    }

    /// A few different texts that match: short, long, and one for each alternative.
    pub(super) fn examples(&self) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for (extra, shift) in [(0, 0), (1, 1), (3, 2), (12, 3), (0, 5), (2, 9)] {
            let mut text = String::new();
            write(&self.0, extra, shift, &mut text);
            if !out.contains(&text) && self.matches(&text) {
                out.push(text);
            }
        }
        out
    }
}

/// Calls `next` with every position at which a match from `at` can end, until it says yes.
fn ends(node: &Node, text: &[char], at: usize, next: &mut dyn FnMut(usize) -> bool) -> bool {
    match node {
        Node::Set { negated, ranges } => text.get(at).is_some_and(|found| {
            ranges.iter().any(|(low, high)| (low..=high).contains(&found)) != *negated && next(at + 1)
        }),
        Node::Start => at == 0 && next(at),
        Node::End => at == text.len() && next(at),
        Node::Concat(parts) => match parts.split_first() {
            None => next(at),
            Some((first, rest)) => {
                // The tail of a concatenation is one as well, so recursion needs no index.
                let rest = Node::Concat(rest.to_vec());
                ends(first, text, at, &mut |end| ends(&rest, text, end, next))
            }
        },
        Node::Either(parts) => parts.iter().any(|part| ends(part, text, at, next)),
        Node::Repeat { of, least, most } => {
            if most.is_none_or(|most| most > 0) {
                let fewer = Node::Repeat {
                    of: of.clone(),
                    least: least.saturating_sub(1),
                    most: most.map(|most| most - 1),
                };
                let more = ends(of, text, at, &mut |end| end > at && ends(&fewer, text, end, next));
                if more {
                    return true;
                }
            }
            *least == 0 && next(at)
        }
    }
}

/// Writes one text that matches: `extra` repetitions above the least, alternatives and characters by `shift`.
fn write(node: &Node, extra: usize, shift: usize, out: &mut String) {
    match node {
        Node::Set { negated, ranges } => out.push(member(*negated, ranges, shift + out.len())),
        Node::Start | Node::End => {}
        Node::Concat(parts) => parts.iter().for_each(|part| write(part, extra, shift, out)),
        Node::Either(parts) => {
            if let Some(part) = parts.get(shift % parts.len().max(1)) {
                write(part, extra, shift, out);
            }
        }
        Node::Repeat { of, least, most } => {
            let times = (least + extra).min(most.unwrap_or(usize::MAX));
            (0..times).for_each(|_| write(of, extra, shift, out));
        }
    }
}

/// A character of a set, letters and digits first.
fn member(negated: bool, ranges: &[(char, char)], shift: usize) -> char {
    let inside =
        |candidate: char| ranges.iter().any(|(low, high)| (*low..=*high).contains(&candidate)) != negated;
    let plain: Vec<char> = ('a'..='z').chain('0'..='9').chain('A'..='Z').filter(|c| inside(*c)).collect();
    plain.get(shift % plain.len().max(1)).copied().unwrap_or_else(|| {
        (' '..='~').find(|c| inside(*c)).or_else(|| ranges.first().map(|(low, _)| *low)).unwrap_or('a')
    })
}

struct Parser {
    rest: std::iter::Peekable<std::vec::IntoIter<char>>,
}

impl Parser {
    fn either(&mut self) -> Option<Node> {
        let mut parts = vec![self.concat()?];
        while self.rest.next_if_eq(&'|').is_some() {
            parts.push(self.concat()?);
        }
        if parts.len() == 1 { parts.pop() } else { Some(Node::Either(parts)) }
    }

    fn concat(&mut self) -> Option<Node> {
        let mut parts = Vec::new();
        while self.rest.peek().is_some_and(|next| !matches!(next, '|' | ')')) {
            let atom = self.atom()?;
            parts.push(self.repeated(atom)?);
        }
        Some(Node::Concat(parts))
    }

    fn atom(&mut self) -> Option<Node> {
        match self.rest.next()? {
            '(' => {
                if self.rest.next_if_eq(&'?').is_some() {
                    self.rest.next_if_eq(&':')?;
                }
                let inner = self.either()?;
                self.rest.next_if_eq(&')')?;
                Some(inner)
            }
            '[' => self.class(),
            '.' => Some(Node::Set { negated: true, ranges: vec![('\n', '\n')] }),
            '^' => Some(Node::Start),
            '$' => Some(Node::End),
            '\\' => {
                let (negated, ranges) = escape(self.rest.next()?)?;
                Some(Node::Set { negated, ranges })
            }
            '*' | '+' | '?' | '{' => None,
            literal => Some(one(literal)),
        }
    }

    fn repeated(&mut self, atom: Node) -> Option<Node> {
        let (least, most) = match self.rest.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => return self.counted(atom),
            _ => return Some(atom),
        };
        self.rest.next();
        // A lazy repetition matches the same texts.
        self.rest.next_if_eq(&'?');
        Some(Node::Repeat { of: Box::new(atom), least, most })
    }

    fn counted(&mut self, atom: Node) -> Option<Node> {
        self.rest.next();
        let mut text = String::new();
        loop {
            match self.rest.next()? {
                '}' => break,
                other => text.push(other),
            }
        }
        let (least, most) = match text.split_once(',') {
            None => (text.parse().ok()?, Some(text.parse().ok()?)),
            Some((least, "")) => (least.parse().ok()?, None),
            Some((least, most)) => (least.parse().ok()?, Some(most.parse().ok()?)),
        };
        Some(Node::Repeat { of: Box::new(atom), least, most })
    }

    fn class(&mut self) -> Option<Node> {
        let negated = self.rest.next_if_eq(&'^').is_some();
        let mut ranges = Vec::new();
        loop {
            let low = match self.rest.next()? {
                ']' if !ranges.is_empty() => return Some(Node::Set { negated, ranges }),
                '[' if self.rest.peek() == Some(&':') => return None,
                '\\' => {
                    let (inverse, set) = escape(self.rest.next()?)?;
                    match set.as_slice() {
                        [(low, high)] if low == high && !inverse => *low,
                        _ if inverse => return None,
                        _ => {
                            ranges.extend(set);
                            continue;
                        }
                    }
                }
                literal => literal,
            };
            if self.rest.peek() != Some(&'-') {
                ranges.push((low, low));
                continue;
            }
            self.rest.next();
            match self.rest.next()? {
                // A dash at the end stands for itself.
                ']' => {
                    ranges.extend([(low, low), ('-', '-')]);
                    return Some(Node::Set { negated, ranges });
                }
                '\\' => ranges.push((low, self.rest.next()?)),
                high => ranges.push((low, high)),
            }
        }
    }
}

fn one(literal: char) -> Node {
    Node::Set { negated: false, ranges: vec![(literal, literal)] }
}

fn escape(letter: char) -> Option<(bool, Vec<(char, char)>)> {
    let word = vec![('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')];
    let space = vec![(' ', ' '), ('\t', '\r')];
    Some(match letter {
        'd' => (false, vec![('0', '9')]),
        'D' => (true, vec![('0', '9')]),
        'w' => (false, word),
        'W' => (true, word),
        's' => (false, space),
        'S' => (true, space),
        'n' => (false, vec![('\n', '\n')]),
        't' => (false, vec![('\t', '\t')]),
        'r' => (false, vec![('\r', '\r')]),
        other if other.is_ascii_alphanumeric() => return None,
        other => (false, vec![(other, other)]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_match_and_hostile_texts_do_not() {
        let known = [
            "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            r"^(https|ssh)://[^\s/]+/.+$",
            r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$",
            "^sha256:[a-f0-9]{64}$",
            r"^[^/.-][^\x2f]*$",
            r"^v\d{1,3}(\.\d+){0,2}(-[\w.-]+)?$",
        ];
        for text in known {
            let Some(pattern) = Pattern::parse(text) else {
                assert!(text.contains(r"\x"), "{text} is not understood");
                continue;
            };
            let examples = pattern.examples();
            assert!(!examples.is_empty(), "no example for {text}");
            assert!(examples.iter().all(|example| pattern.matches(example)), "{text}: {examples:?}");
            assert!(!pattern.matches("\u{7}\n"), "{text}");
        }
        let name = Pattern::parse(known[0]).unwrap();
        assert!(name.matches("web-1") && !name.matches("-rf") && !name.matches("../x") && !name.matches(""));
        assert!(Pattern::parse("a").unwrap().matches("bab"), "unanchored");
        assert!(Pattern::parse(r"(?i)x").is_none() && Pattern::parse(r"\bx").is_none());
    }
}
