//! Whole numbers beside floating ones: CEL refuses to add, subtract, multiply or divide them, people do not.
//!
//! Whole numbers are literals and what `len`, `size`, `int` and `asInt` give; all else that is a number is floating. Where
//! the two meet, the whole one becomes floating. Division always does: `1/2` in a threshold never means 0.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    Other,
}

/// Makes floating what has to be.
pub(super) fn numbers(node: &mut IdedExpr) {
    kind(node);
}

fn kind(node: &mut IdedExpr) -> Kind {
    match &mut node.expr {
        Expr::Literal(LiteralValue::Int(_)) => Kind::Whole,
        Expr::Call(call) => call_kind(call),
        Expr::Select(select) => {
            kind(&mut select.operand);
            Kind::Other
        }
        Expr::List(list) => {
            list.elements.iter_mut().for_each(numbers);
            Kind::Other
        }
        Expr::Comprehension(all) => {
            let all = all.as_mut();
            for part in [&mut all.iter_range, &mut all.accu_init, &mut all.loop_cond, &mut all.loop_step] {
                numbers(part);
            }
            numbers(&mut all.result);
            Kind::Other
        }
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    numbers(&mut entry.key);
                    numbers(&mut entry.value);
                }
            }
            Kind::Other
        }
        _ => Kind::Other,
    }
}

fn call_kind(call: &mut CallExpr) -> Kind {
    if let Some(target) = &mut call.target {
        numbers(target);
    }
    let kinds: Vec<Kind> = call.args.iter_mut().map(kind).collect();
    match call.func_name.as_str() {
        operators::ADD | operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE => {
            let divides = call.func_name == operators::DIVIDE;
            if kinds.iter().all(|kind| *kind == Kind::Whole) && !divides {
                return Kind::Whole;
            }
            for (arg, kind) in call.args.iter_mut().zip(kinds) {
                if kind == Kind::Whole {
                    float(arg);
                }
            }
            Kind::Other
        }
        operators::NEGATE => kinds.first().copied().unwrap_or(Kind::Other),
        operators::MODULO | "len" | "size" | "int" | "asInt" => Kind::Whole,
        _ => Kind::Other,
    }
}

fn float(node: &mut IdedExpr) {
    let whole = std::mem::take(node);
    let call = CallExpr { func_name: "double".to_owned(), target: None, args: vec![whole] };
    *node = IdedExpr { id: node.id, expr: Expr::Call(call) };
}
