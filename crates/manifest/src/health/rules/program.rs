//! A CEL expression, ready to run: parsed once, `has()` made to mean "is not absent", helpers at hand.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr};
use cel::common::types::{CelBool, CelInt, CelString, DYN_TYPE, LIST_TYPE, NULL_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{Context, DeclarationError, Env, Value as Cel, extensions};
use serde_json::Value;

use super::view::{Variables, is_absent};
use crate::health::words::{self, Tone};

/// The functions rules may call besides CEL's own: made once for all rules.
static ENV: LazyLock<Option<Arc<Env>>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    helpers(&mut env).ok().map(|()| Arc::new(env))
});

fn helpers(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_extension(extensions::strings)?;
    env.add_overload("present", "present_dyn", vec![DYN_TYPE], |args| {
        Ok(flag(args.first().is_some_and(|arg| !is_absent(arg.as_ref()))))
    })?;
    env.add_overload("size", "size_null", vec![NULL_TYPE], |_| Ok(CowVal::owned(CelInt::from(0))))?;
    env.add_overload("num", "num_dyn", vec![DYN_TYPE], |args| Ok(CowVal::owned(CelInt::from(num(&args)))))?;
    env.add_overload("sum", "sum_dyn", vec![DYN_TYPE], |args| Ok(CowVal::owned(CelInt::from(sum(&args)))))?;
    env.add_overload("failing", "failing_dyn", vec![DYN_TYPE], |args| {
        Ok(flag(tone(&args) == Some(Tone::Bad)))
    })?;
    env.add_overload("busy", "busy_dyn", vec![DYN_TYPE], |args| {
        Ok(flag(matches!(tone(&args), Some(Tone::Busy | Tone::Lacking))))
    })?;
    env.add_overload("fine", "fine_dyn", vec![DYN_TYPE], |args| Ok(flag(tone(&args) == Some(Tone::Good))))?;
    env.add_overload("resting", "resting_dyn", vec![DYN_TYPE], |args| {
        Ok(flag(tone(&args) == Some(Tone::Paused)))
    })?;
    Ok(())
}

fn flag<'b, 'v>(set: bool) -> CowVal<'b, 'v> {
    CowVal::owned(CelBool::from(set))
}

/// A whole number of anything: a number, the text of one, nothing as 0.
fn num(args: &[CowVal<'_, '_>]) -> i64 {
    let Some(arg) = args.first() else { return 0 };
    if let Some(whole) = arg.downcast_ref::<CelInt>() {
        return *whole.inner();
    }
    arg.downcast_ref::<CelString>().and_then(|text| text.inner().trim().parse().ok()).unwrap_or(0)
}

/// The sum of a list of whole numbers; of nothing, 0.
fn sum(args: &[CowVal<'_, '_>]) -> i64 {
    let mut total = 0_i64;
    if let Some(list) = args.first().and_then(|arg| arg.as_iterable()) {
        let mut items = list.iter();
        while let Some(item) = items.next() {
            total = total.saturating_add(item.downcast_ref::<CelInt>().map_or(0, |whole| *whole.inner()));
        }
    }
    total
}

fn tone(args: &[CowVal<'_, '_>]) -> Option<Tone> {
    args.first().and_then(|arg| arg.downcast_ref::<CelString>()).and_then(|text| words::tone(text.inner()))
}

/// One object, ready for any number of expressions.
pub(super) struct Scope<'a> {
    variables: Variables<'a>,
}

impl<'a> Scope<'a> {
    pub(super) const fn new(object: &'a Value) -> Self {
        Self { variables: Variables(object) }
    }

    /// The context of this object, or nothing should the helpers not have been accepted by the engine.
    pub(super) fn context(&self) -> Option<Context<'_, '_>> {
        let env = ENV.as_ref()?;
        let mut context = Context::with_env(Arc::clone(env));
        context.set_variable_resolver(&self.variables);
        Some(context)
    }
}

/// A parsed expression.
#[derive(Debug)]
pub(super) struct Program {
    expression: IdedExpr,
}

impl Program {
    /// Parses an expression; the error is the parser's, with the place in the expression.
    pub(super) fn new(source: &str) -> Result<Self, String> {
        let env = ENV.as_ref().ok_or("the expression engine does not accept the helper functions")?;
        let program = env.compile(source).map_err(|error| error.to_string())?;
        check(program.expression(), &mut Vec::new())?;
        let mut expression = program.expression().clone();
        lenient_has(&mut expression);
        Ok(Self { expression })
    }

    /// Whether the expression is true of the object. What fails is not true: a rule that stumbles over an odd object
    /// leaves it to the next rule.
    pub(super) fn holds(&self, context: &Context<'_, '_>) -> bool {
        Cel::resolve_val(&self.expression, context)
            .ok()
            .and_then(|value| value.downcast_ref::<CelBool>().map(|flag| *flag.inner()))
            .unwrap_or(false)
    }

    /// Appends the value as text; nothing for what is absent or fails.
    pub(super) fn write(&self, context: &Context<'_, '_>, to: &mut String) {
        if let Ok(value) = Cel::resolve_val(&self.expression, context) {
            write_value(value.as_ref(), to);
        }
    }
}

const VARIABLES: &[&str] = &["self", "metadata", "spec", "status", "conditions", "unread"];

/// What rules may call. Anything else is a slip of the pen, told when the rule is read and not when an object is judged.
const FUNCTIONS: &[&str] = &[
    "present",
    "num",
    "sum",
    "failing",
    "busy",
    "fine",
    "resting",
    "size",
    "string",
    "int",
    "uint",
    "double",
    "bool",
    "type",
    "dyn",
    "startsWith",
    "endsWith",
    "contains",
    "matches",
    "lowerAscii",
    "upperAscii",
    "join",
    "split",
    "replace",
    "substring",
    "indexOf",
    "lastIndexOf",
    "charAt",
    "trim",
    "format",
    "timestamp",
    "duration",
    "reverse",
];

/// Refuses names that nothing answers to. `bound` are the names that comprehensions brought in.
fn check<'e>(node: &'e IdedExpr, bound: &mut Vec<&'e str>) -> Result<(), String> {
    match &node.expr {
        Expr::Ident(name) => {
            let known = VARIABLES.contains(&name.as_str()) || bound.contains(&name.as_str());
            if known || FUNCTIONS.contains(&name.as_str()) {
                Ok(())
            } else {
                Err(format!("there is no variable {name}; there are {}", VARIABLES.join(", ")))
            }
        }
        Expr::Select(select) => check(&select.operand, bound),
        Expr::Call(call) => {
            let operator = call.func_name.contains(['_', '@', '!']);
            if !operator && !FUNCTIONS.contains(&call.func_name.as_str()) {
                return Err(format!(
                    "there is no function {}; there are {}",
                    call.func_name,
                    FUNCTIONS.join(", ")
                ));
            }
            call.target.iter().map(AsRef::as_ref).chain(&call.args).try_for_each(|part| check(part, bound))
        }
        Expr::Comprehension(all) => {
            check(&all.iter_range, bound)?;
            let before = bound.len();
            bound.extend([all.iter_var.as_str(), all.accu_var.as_str()]);
            bound.extend(all.iter_var2.as_deref());
            let inner = [&all.accu_init, &all.loop_cond, &all.loop_step, &all.result];
            let checked = inner.into_iter().try_for_each(|part| check(part, bound));
            bound.truncate(before);
            checked
        }
        Expr::List(list) => list.elements.iter().try_for_each(|part| check(part, bound)),
        Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => check(&entry.key, bound).and_then(|()| check(&entry.value, bound)),
            EntryExpr::StructField(field) => check(&field.value, bound),
        }),
        Expr::Struct(made) => Err(format!("a rule cannot make a {}", made.type_name)),
        Expr::Unspecified | Expr::Literal(_) => Ok(()),
    }
}

fn write_value(value: &dyn Val, to: &mut String) {
    if let Some(text) = value.downcast_ref::<CelString>() {
        to.push_str(text.inner());
    } else if value.get_type() == &LIST_TYPE {
        let mut items = value.as_iterable().map(|list| list.iter());
        let mut first = true;
        while let Some(item) = items.as_mut().and_then(|items| items.next()) {
            if !first {
                to.push_str(", ");
            }
            first = false;
            write_value(item, to);
        }
    } else if is_absent(value) {
        // Nothing to say.
    } else if let Some(whole) = value.downcast_ref::<CelInt>() {
        let _ = write!(to, "{}", whole.inner());
    } else if let Some(flag) = value.downcast_ref::<CelBool>() {
        let _ = write!(to, "{}", flag.inner());
    } else if let Some(number) = value.downcast_ref::<cel::common::types::CelDouble>() {
        let _ = write!(to, "{}", number.inner());
    }
}

/// Turns `has(a.b)` into `present(a.b)`: an absent field is a value here, which CEL's own test would call there.
fn lenient_has(node: &mut IdedExpr) {
    match &mut node.expr {
        Expr::Select(select) => {
            lenient_has(&mut select.operand);
            if select.test {
                select.test = false;
                let inner = IdedExpr { id: node.id, expr: std::mem::take(&mut node.expr) };
                node.expr =
                    Expr::Call(CallExpr { func_name: "present".to_owned(), target: None, args: vec![inner] });
            }
        }
        Expr::Call(call) => {
            if let Some(target) = &mut call.target {
                lenient_has(target);
            }
            call.args.iter_mut().for_each(lenient_has);
        }
        Expr::Comprehension(all) => {
            for part in [
                &mut all.iter_range,
                &mut all.accu_init,
                &mut all.loop_cond,
                &mut all.loop_step,
                &mut all.result,
            ] {
                lenient_has(part);
            }
        }
        Expr::List(list) => list.elements.iter_mut().for_each(lenient_has),
        Expr::Map(map) => map.entries.iter_mut().for_each(|entry| lenient_entry(&mut entry.expr)),
        Expr::Struct(made) => made.entries.iter_mut().for_each(|entry| lenient_entry(&mut entry.expr)),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
    }
}

fn lenient_entry(entry: &mut EntryExpr) {
    match entry {
        EntryExpr::StructField(field) => lenient_has(&mut field.value),
        EntryExpr::MapEntry(entry) => {
            lenient_has(&mut entry.key);
            lenient_has(&mut entry.value);
        }
    }
}
