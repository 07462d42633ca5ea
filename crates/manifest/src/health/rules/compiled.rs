//! Rules ready to judge with.

use std::sync::OnceLock;

use cel::Context;
use serde_json::Value;

use super::RuleError;
use super::form::{File, Verdict};
use super::program::{Program, Scope};
use crate::health::generic::generic;
use crate::health::object::{deleting, unread};
use crate::health::{Health, Status};

/// A message with expressions in it.
#[derive(Debug)]
struct Template(Vec<Piece>);

#[derive(Debug)]
enum Piece {
    Text(String),
    Value(Program),
}

impl Template {
    fn new(source: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = source;
        while let Some(start) = rest.find("${") {
            if start > 0 {
                pieces.push(Piece::Text(rest[..start].to_owned()));
            }
            let inside = &rest[start + 2..];
            let end = closing(inside).ok_or_else(|| format!("`${{` without its `}}` in {source:?}"))?;
            pieces.push(Piece::Value(Program::new(&inside[..end])?));
            rest = &inside[end + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    fn render(&self, context: &Context<'_, '_>) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Value(program) => program.write(context, &mut text),
            }
        }
        text
    }
}

/// Where the brace closes that opened before `text`, quotes and inner braces skipped.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote: Option<char> = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '{') => depth += 1,
            (None, '}') if depth == 0 => return Some(at),
            (None, '}') => depth -= 1,
            _ => {}
        }
    }
    None
}

#[derive(Debug)]
struct Said {
    status: Status,
    message: Template,
}

#[derive(Debug)]
struct Ready {
    rules: Vec<(Program, Said)>,
    otherwise: Option<Said>,
}

/// One file of rules; its expressions are parsed when the first object of its kinds comes by.
#[derive(Debug)]
pub(super) struct Compiled {
    /// Where the rules come from, for errors.
    pub name: String,
    pub file: File,
    ready: OnceLock<Result<Ready, RuleError>>,
}

impl Compiled {
    pub(super) const fn new(name: String, file: File) -> Self {
        Self { name, file, ready: OnceLock::new() }
    }

    /// Parses the expressions now and tells what is wrong with them.
    pub(super) fn check(&self) -> Result<(), RuleError> {
        self.ready().map(|_| ()).map_err(Clone::clone)
    }

    fn ready(&self) -> Result<&Ready, &RuleError> {
        self.ready.get_or_init(|| self.compile()).as_ref()
    }

    fn compile(&self) -> Result<Ready, RuleError> {
        let wrong = |number: usize| {
            move |source: String| RuleError::Expression {
                file: self.name.clone(),
                rule: number,
                source_text: source,
            }
        };
        let mut rules = Vec::with_capacity(self.file.rules.len());
        for (at, rule) in self.file.rules.iter().enumerate() {
            let program = Program::new(&rule.when).map_err(wrong(at + 1))?;
            let message = Template::new(&rule.message).map_err(wrong(at + 1))?;
            rules.push((program, Said { status: rule.status, message }));
        }
        let otherwise = match &self.file.otherwise {
            Some(Verdict { status, message }) => Some(Said {
                status: *status,
                message: Template::new(message).map_err(wrong(rules.len() + 1))?,
            }),
            None => None,
        };
        Ok(Ready { rules, otherwise })
    }

    /// Judges an object of these kinds.
    pub(super) fn judge(&self, object: &Value) -> Health {
        let leaving = deleting(object);
        if leaving && !self.file.while_deleting {
            return Health::deleting();
        }
        if unread(object) && !self.file.any_generation {
            // A fault that the controller saw in the newest spec is told at once by the generic rule.
            return generic(object);
        }
        let mut health = self.decide(object);
        if leaving && health.status == Status::Healthy {
            health = Health::deleting();
        }
        health
    }

    fn decide(&self, object: &Value) -> Health {
        let Ok(ready) = self.ready() else { return generic(object) };
        let scope = Scope::new(object);
        let Some(context) = scope.context() else { return generic(object) };
        let said = ready
            .rules
            .iter()
            .find(|(when, _)| when.holds(&context))
            .map(|(_, said)| said)
            .or(ready.otherwise.as_ref());
        match said {
            Some(said) => Health::new(said.status, said.message.render(&context)),
            None => generic(object),
        }
    }
}
