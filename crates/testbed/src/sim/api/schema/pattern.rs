//! A small regular expression matcher for `pattern` in schemas: what RE2 offers of literals, classes, groups,
//! alternatives, anchors and repetition. A pattern that uses anything else is not checked.

/// A parsed pattern. Unanchored, as in JSON schema.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Node);

#[derive(Clone, Debug)]
enum Node {
    Char(char),
    Any,
    Class { negated: bool, ranges: Vec<(char, char)> },
    Start,
    End,
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat { node: Box<Node>, least: usize, most: Option<usize> },
}

impl Pattern {
    /// Parses a pattern, `None` when it uses something that is not known here.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let chars: Vec<char> = text.chars().collect();
        let mut parser = Parser { chars: &chars, at: 0 };
        let node = parser.choice()?;
        (parser.at == chars.len()).then_some(Self(node))
    }

    /// Whether the pattern is found anywhere in the text.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        let chars: Vec<char> = text.chars().collect();
        (0..=chars.len()).any(|start| step(&self.0, &chars, start, &mut |_| true))
    }
}

/// Matches `node` at `at` and hands every end position to `next` until that says yes.
fn step(node: &Node, text: &[char], at: usize, next: &mut dyn FnMut(usize) -> bool) -> bool {
    let here = text.get(at).copied();
    match node {
        Node::Char(expected) => here == Some(*expected) && next(at + 1),
        Node::Any => here.is_some_and(|found| found != '\n') && next(at + 1),
        Node::Class { negated, ranges } => {
            let inside = |found: char| ranges.iter().any(|(low, high)| (*low..=*high).contains(&found));
            here.is_some_and(|found| inside(found) != *negated) && next(at + 1)
        }
        Node::Start => at == 0 && next(at),
        Node::End => at == text.len() && next(at),
        Node::Sequence(nodes) => sequence(nodes, text, at, next),
        Node::Choice(nodes) => nodes.iter().any(|node| step(node, text, at, next)),
        Node::Repeat { node, least, most } => repeat(node, *least, *most, text, at, next),
    }
}

fn sequence(nodes: &[Node], text: &[char], at: usize, next: &mut dyn FnMut(usize) -> bool) -> bool {
    match nodes {
        [] => next(at),
        [first, rest @ ..] => step(first, text, at, &mut |end| sequence(rest, text, end, next)),
    }
}

/// Tracks the set of reachable ends instead of recursing per repetition, so that long texts need no deep stack.
fn repeat(
    node: &Node,
    least: usize,
    most: Option<usize>,
    text: &[char],
    at: usize,
    next: &mut dyn FnMut(usize) -> bool,
) -> bool {
    let mut seen = vec![false; text.len() + 1];
    let mut frontier = vec![at];
    let mut count = 0;
    let mut ends = Vec::new();
    while !frontier.is_empty() {
        if count >= least {
            for &end in &frontier {
                if !seen[end] {
                    seen[end] = true;
                    ends.push(end);
                }
            }
        }
        if most.is_some_and(|most| count >= most) || count > text.len() + least {
            break;
        }
        let mut following = vec![false; text.len() + 1];
        for &start in &frontier {
            step(node, text, start, &mut |end| {
                // Past the least count a repetition without progress or to a known end adds nothing.
                following[end] |= count < least || !seen[end];
                false
            });
        }
        frontier = following.iter().enumerate().filter_map(|(end, hit)| hit.then_some(end)).collect();
        count += 1;
    }
    ends.into_iter().any(next)
}

struct Parser<'a> {
    chars: &'a [char],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let found = self.peek()?;
        self.at += 1;
        Some(found)
    }

    fn eat(&mut self, expected: char) -> bool {
        let hit = self.peek() == Some(expected);
        self.at += usize::from(hit);
        hit
    }

    fn choice(&mut self) -> Option<Node> {
        let mut options = vec![self.sequence()?];
        while self.eat('|') {
            options.push(self.sequence()?);
        }
        Some(Node::Choice(options))
    }

    fn sequence(&mut self) -> Option<Node> {
        let mut nodes = Vec::new();
        while let Some(next) = self.peek() {
            if next == '|' || next == ')' {
                break;
            }
            let atom = self.atom()?;
            nodes.push(self.repetition(atom)?);
        }
        Some(Node::Sequence(nodes))
    }

    fn atom(&mut self) -> Option<Node> {
        match self.take()? {
            '^' => Some(Node::Start),
            '$' => Some(Node::End),
            '.' => Some(Node::Any),
            '(' => {
                if self.eat('?') && !self.eat(':') {
                    return None;
                }
                let inner = self.choice()?;
                self.eat(')').then_some(inner)
            }
            '[' => self.class(),
            '\\' => self.escape(),
            '*' | '+' | '?' => None,
            other => Some(Node::Char(other)),
        }
    }

    fn escape(&mut self) -> Option<Node> {
        let letter = self.take()?;
        if let Some(ranges) = shorthand(letter.to_ascii_lowercase()) {
            return Some(Node::Class { negated: letter.is_ascii_uppercase(), ranges });
        }
        literal(letter).map(Node::Char)
    }

    fn class(&mut self) -> Option<Node> {
        let negated = self.eat('^');
        let mut ranges = Vec::new();
        let mut first = true;
        loop {
            let mut low = self.take()?;
            if low == ']' && !first {
                return Some(Node::Class { negated, ranges });
            }
            first = false;
            if low == '\\' {
                let letter = self.take()?;
                if let Some(more) = shorthand(letter) {
                    ranges.extend(more);
                    continue;
                }
                low = literal(letter)?;
            } else if low == '[' && self.peek() == Some(':') {
                return None;
            }
            let is_range =
                self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|next| *next != ']');
            let high = if is_range {
                self.at += 1;
                match self.take()? {
                    '\\' => {
                        let letter = self.take()?;
                        literal(letter)?
                    }
                    other => other,
                }
            } else {
                low
            };
            ranges.push((low, high));
        }
    }

    fn repetition(&mut self, atom: Node) -> Option<Node> {
        let (least, most) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => return self.counted(atom),
            _ => return Some(atom),
        };
        self.at += 1;
        // Greedy or lazy does not matter for whether a text matches.
        self.eat('?');
        Some(Node::Repeat { node: Box::new(atom), least, most })
    }

    fn counted(&mut self, atom: Node) -> Option<Node> {
        self.at += 1;
        let least = self.number()?;
        let most = if self.eat(',') {
            if self.peek() == Some('}') { None } else { Some(self.number()?) }
        } else {
            Some(least)
        };
        self.eat('}').then(|| Node::Repeat { node: Box::new(atom), least, most })
    }

    fn number(&mut self) -> Option<usize> {
        let start = self.at;
        while self.peek().is_some_and(|digit| digit.is_ascii_digit()) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect::<String>().parse().ok()
    }
}

fn shorthand(letter: char) -> Option<Vec<(char, char)>> {
    match letter {
        'd' => Some(vec![('0', '9')]),
        'w' => Some(vec![('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')]),
        's' => Some(vec![(' ', ' '), ('\t', '\t'), ('\n', '\n'), ('\r', '\r'), ('\u{c}', '\u{c}')]),
        _ => None,
    }
}

fn literal(letter: char) -> Option<char> {
    match letter {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        'f' => Some('\u{c}'),
        'z' | 'A' | 'b' | 'B' | 'x' | 'p' | 'P' | 'Q' => None,
        other if other.is_ascii_alphanumeric() => None,
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    fn is_match(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).unwrap().is_match(text)
    }

    #[test]
    fn kubernetes_patterns() {
        let label = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
        for good in ["a", "a-b", "a.b-c.d0", &"x".repeat(500)] {
            assert!(is_match(label, good), "{good}");
        }
        for bad in ["", "-a", "a-", "a..b", "A", "a b"] {
            assert!(!is_match(label, bad), "{bad}");
        }
        let duration = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$";
        assert!(is_match(duration, "1h30m"));
        assert!(is_match(duration, "1.5s"));
        assert!(!is_match(duration, "5"));
    }

    #[test]
    fn repetition_classes_and_choices() {
        assert!(is_match(r"^\d{3}$", "123"));
        assert!(!is_match(r"^\d{3}$", "12"));
        assert!(is_match(r"^a{2,}$", "aaa"));
        assert!(!is_match(r"^a{1,2}$", "aaa"));
        assert!(is_match("b", "abc"));
        assert!(is_match(r"^(https?|ssh)://[^/\s]+", "https://example.com/x"));
        assert!(!is_match(r"^(https?|ssh)://", "ftp://x"));
        assert!(is_match(r"^[\w.-]+$", "a_b.c-d"));
        assert!(is_match("^(a*)*$", "aaaa"));
        assert!(!is_match("^(a*)*$", "aaab"));
        assert!(is_match("^$", ""));
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        for text in [r"\bx", "(?i)x", "[[:alpha:]]", "a**", "(a", r"\p{L}"] {
            assert!(Pattern::parse(text).is_none(), "{text}");
        }
    }
}
