//! The object as CEL sees it: read in place, nothing converted ahead.
//!
//! A rule looks at a few fields of an object that may have thousands, so maps are views that answer a key when asked.
//! A missing field is [`Absent`]: it equals `null`, its fields are absent too, it is an empty list and contains nothing.
//! Rules need no `has()` for that, though `has()` works.

use std::any::Any;
use std::sync::OnceLock;

use cel::ExecutionError;
use cel::common::traits::{Container, Indexer, Iterable, Iterator as CelIterator, Sizer, Zeroer};
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelNull, CelString, CelUInt, LIST_TYPE, MAP_TYPE, NULL_TYPE, Type,
};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::context::VariableResolver;
use serde_json::{Map, Value};

use crate::health::conditions::{self, Condition, Truth};
use crate::health::object::{generation, unread};

/// A JSON value as a CEL value. Scalars borrow, maps and lists are views.
pub(super) fn view<'v>(value: Option<&'v Value>) -> Box<dyn Val + 'v> {
    match value {
        None | Some(Value::Null) => Box::new(Absent),
        Some(Value::Bool(flag)) => Box::new(CelBool::from(*flag)),
        Some(Value::String(text)) => Box::new(CelString::from(text.as_str())),
        Some(Value::Number(number)) => {
            if let Some(whole) = number.as_i64() {
                Box::new(CelInt::from(whole))
            } else if let Some(large) = number.as_u64() {
                Box::new(CelUInt::from(large))
            } else {
                Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN)))
            }
        }
        Some(Value::Array(items)) => Box::new(List::new(items)),
        Some(Value::Object(map)) => Box::new(Fields::new(map)),
    }
}

fn key_of(index: &dyn Val) -> Option<&str> {
    <&str>::try_from(index).ok()
}

/// What is not there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Absent;

static NULL: CelNull = CelNull;

impl Val for Absent {
    fn get_type(&self) -> &Type {
        <Self as Val>::cel_type()
    }

    fn cel_type() -> &'static Type {
        static TYPE: Type = NULL_TYPE;
        &TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        Some(&NULL)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        is_absent(other)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(*self)
    }

    // CEL's own null asks for this when it is the left side: `null == status.phase` holds too.
    fn as_any(&self) -> Option<&dyn Any> {
        Some(&NULL)
    }
}

impl StaticVal for Absent {}

/// Whether a value is null, in either spelling.
pub(super) fn is_absent(value: &dyn Val) -> bool {
    value.get_type() == &NULL_TYPE
}

impl Container for Absent {
    fn contains(&self, _value: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(false)
    }
}

impl Sizer for Absent {
    fn size(&self) -> CelInt {
        CelInt::from(0)
    }
}

impl Indexer for Absent {
    fn get<'b, 'v>(&'b self, _index: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        Ok(CowVal::owned(Absent))
    }

    fn steal<'v>(self: Box<Self>, _index: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        Ok(self)
    }
}

struct Nothing;

impl<'b, 'v> CelIterator<'b, 'v> for Nothing {
    fn next(&mut self) -> Option<&'b (dyn Val + 'v)> {
        None
    }
}

impl Iterable for Absent {
    fn iter<'b, 'v>(&'b self) -> Box<dyn CelIterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        Box::new(Nothing)
    }
}

/// A map, read in place.
#[derive(Debug)]
struct Fields<'a> {
    map: &'a Map<String, Value>,
    /// Made only when a rule walks over the map: CEL lends out keys, it does not take them.
    keys: OnceLock<Vec<CelString<'a>>>,
}

impl<'a> Fields<'a> {
    const fn new(map: &'a Map<String, Value>) -> Self {
        Self { map, keys: OnceLock::new() }
    }
}

impl Val for Fields<'_> {
    fn get_type(&self) -> &Type {
        <Self as Val>::cel_type()
    }

    fn cel_type() -> &'static Type {
        static TYPE: Type = MAP_TYPE;
        &TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(Fields::new(self.map))
    }
}

impl Container for Fields<'_> {
    fn contains(&self, value: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(key_of(value).is_some_and(|key| self.map.contains_key(key)))
    }
}

impl Sizer for Fields<'_> {
    fn size(&self) -> CelInt {
        CelInt::from(i64::try_from(self.map.len()).unwrap_or(i64::MAX))
    }
}

impl<'a> Indexer for Fields<'a> {
    fn get<'b, 'v>(&'b self, index: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let map: &'a Map<String, Value> = self.map;
        Ok(CowVal::Owned(view(key_of(index).and_then(|key| map.get(key)))))
    }

    fn steal<'v>(self: Box<Self>, index: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.get(index).map(CowVal::into_owned)
    }
}

struct Keys<'b, 'a>(std::slice::Iter<'b, CelString<'a>>);

impl<'b, 'a: 'v, 'v> CelIterator<'b, 'v> for Keys<'b, 'a> {
    fn next(&mut self) -> Option<&'b (dyn Val + 'v)> {
        self.0.next().map(|key| key as &(dyn Val + 'v))
    }
}

impl<'a> Iterable for Fields<'a> {
    fn iter<'b, 'v>(&'b self) -> Box<dyn CelIterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        let map: &'a Map<String, Value> = self.map;
        let keys = self.keys.get_or_init(|| map.keys().map(|key| CelString::from(key.as_str())).collect());
        Box::new(Keys(keys.iter()))
    }
}

/// A list, read in place. An item beyond the end is absent.
#[derive(Debug)]
struct List<'a> {
    items: &'a [Value],
    /// Made only when a rule walks over the list: CEL lends out items, it does not take them.
    views: OnceLock<Vec<Box<dyn Val + 'a>>>,
}

impl<'a> List<'a> {
    const fn new(items: &'a [Value]) -> Self {
        Self { items, views: OnceLock::new() }
    }

    fn views(&self) -> &[Box<dyn Val + 'a>] {
        let items: &'a [Value] = self.items;
        self.views.get_or_init(|| items.iter().map(|item| view(Some(item))).collect())
    }
}

impl Val for List<'_> {
    fn get_type(&self) -> &Type {
        <Self as Val>::cel_type()
    }

    fn cel_type() -> &'static Type {
        static TYPE: Type = LIST_TYPE;
        &TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(List::new(self.items))
    }
}

impl Container for List<'_> {
    fn contains(&self, value: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(self.views().iter().any(|item| item.equals(value)))
    }
}

impl Sizer for List<'_> {
    fn size(&self) -> CelInt {
        CelInt::from(i64::try_from(self.items.len()).unwrap_or(i64::MAX))
    }
}

impl<'a> Indexer for List<'a> {
    fn get<'b, 'v>(&'b self, index: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let items: &'a [Value] = self.items;
        let at = index.downcast_ref::<CelInt>().and_then(|at| usize::try_from(*at.inner()).ok());
        Ok(CowVal::Owned(view(at.and_then(|at| items.get(at)))))
    }

    fn steal<'v>(self: Box<Self>, index: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.get(index).map(CowVal::into_owned)
    }
}

struct Items<'b, 'a>(std::slice::Iter<'b, Box<dyn Val + 'a>>);

impl<'b, 'a: 'v, 'v> CelIterator<'b, 'v> for Items<'b, 'a> {
    fn next(&mut self) -> Option<&'b (dyn Val + 'v)> {
        self.0.next().map(|item| item.as_ref() as &(dyn Val + 'v))
    }
}

impl Iterable for List<'_> {
    fn iter<'b, 'v>(&'b self) -> Box<dyn CelIterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        Box::new(Items(self.views().iter()))
    }
}

/// `conditions`: the conditions of the status by type. Every type is there, found or not.
#[derive(Debug, Clone)]
struct Conditions<'a> {
    object: &'a Value,
}

/// Implements [`Val`] for a view that only knows named fields.
macro_rules! named_fields {
    ($name:ident) => {
        impl<'a> Val for $name<'a> {
            fn get_type(&self) -> &Type {
                <Self as Val>::cel_type()
            }

            fn cel_type() -> &'static Type {
                static TYPE: Type = MAP_TYPE;
                &TYPE
            }

            fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
            where
                Self: 'v,
            {
                Some(self)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
            where
                Self: 'v,
            {
                Box::new(self.clone())
            }
        }

        impl<'a> Indexer for $name<'a> {
            fn get<'b, 'v>(&'b self, index: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
            where
                Self: 'v,
            {
                Ok(CowVal::Owned(self.field(key_of(index).unwrap_or_default())))
            }

            fn steal<'v>(self: Box<Self>, index: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
            where
                Self: 'v,
            {
                self.get(index).map(CowVal::into_owned)
            }
        }
    };
}

named_fields!(Conditions);
named_fields!(One);

impl<'a> Conditions<'a> {
    fn field(&self, kind: &str) -> Box<dyn Val + 'a> {
        let all = self.object.get("status").and_then(|status| status.get("conditions"));
        let found = conditions::find(all, kind);
        Box::new(One { found, generation: generation(self.object) })
    }
}

/// One condition: its fields as text, and what is asked most.
#[derive(Debug, Clone)]
struct One<'a> {
    found: Option<Condition<'a>>,
    generation: Option<i64>,
}

impl<'a> One<'a> {
    fn field(&self, name: &str) -> Box<dyn Val + 'a> {
        let truth = self.found.as_ref().map(|found| found.truth);
        let flag = |set: bool| -> Box<dyn Val + 'a> { Box::new(CelBool::from(set)) };
        match name {
            "found" => flag(truth.is_some()),
            "isTrue" => flag(truth == Some(Truth::True)),
            "isFalse" => flag(truth == Some(Truth::False)),
            "isUnknown" => flag(truth == Some(Truth::Unknown)),
            "stale" => {
                flag(self.found.as_ref().is_some_and(|found| conditions::is_stale(found, self.generation)))
            }
            "status" => self.text(truth.map(|_| self.found.as_ref().map_or("", |found| found.status))),
            "reason" => self.text(self.found.as_ref().map(|found| found.reason)),
            "message" => self.text(self.found.as_ref().map(|found| found.message)),
            "says" => match &self.found {
                Some(found) => Box::new(CelString::from(found.says())),
                None => Box::new(Absent),
            },
            "observedGeneration" => match self.found.as_ref().and_then(|found| found.observed) {
                Some(seen) => Box::new(CelInt::from(seen)),
                None => Box::new(Absent),
            },
            _ => Box::new(Absent),
        }
    }

    #[allow(clippy::unused_self)] // keeps the lifetime of what it lends in one place
    fn text(&self, text: Option<&'a str>) -> Box<dyn Val + 'a> {
        match text {
            Some(text) => Box::new(CelString::from(text)),
            None => Box::new(Absent),
        }
    }
}

/// The variables of a rule, each made when it is named.
pub(super) struct Variables<'a>(pub &'a Value);

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let value = match variable {
            "self" => view(Some(self.0)),
            "metadata" | "spec" | "status" => view(self.0.get(variable)),
            "conditions" => Box::new(Conditions { object: self.0 }) as Box<dyn Val + 'b>,
            "unread" => Box::new(CelBool::from(unread(self.0))),
            _ => return None,
        };
        Some(CowVal::Owned(value))
    }
}
