//! What clients send, field by field.

use serde_json::{Map, Value};

use crate::problem::Refusal;

/// The fields of a request; `null` is as good as none.
pub struct Fields(pub Map<String, Value>);

impl Fields {
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub fn text(&self, name: &'static str) -> Result<Option<&str>, Refusal> {
        let text = |value: &'_ Value| value.is_string();
        match self.get(name) {
            Some(value) if !text(value) => Err(Refusal::new(name, format!("{name} is a text"))),
            value => Ok(value.and_then(Value::as_str)),
        }
    }

    pub fn number(&self, name: &'static str) -> Result<Option<f64>, Refusal> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let number = value.as_f64().filter(|number| number.is_finite());
        number
            .map(Some)
            .ok_or_else(|| Refusal::new(name, format!("{name} is a number")))
    }

    /// A whole number, also as `20.0`.
    pub fn whole(&self, name: &'static str) -> Result<Option<i64>, Refusal> {
        if let Some(whole) = self.get(name).and_then(Value::as_i64) {
            return Ok(Some(whole));
        }
        let number = self.number(name)?;
        let whole = number
            .map(|number| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64));
        match whole {
            Some(None) => Err(Refusal::new(name, format!("{name} is a whole number"))),
            Some(whole) => Ok(whole),
            None => Ok(None),
        }
    }

    pub fn at_least_one(&self, name: &'static str) -> Result<Option<usize>, Refusal> {
        let number = self.whole(name)?;
        match number {
            Some(number) if number < 1 => Err(Refusal::new(name, format!("{name} is at least 1"))),
            number => Ok(number.map(|number| number as usize)),
        }
    }

    /// Whether something is to be; `otherwise` if nothing is said. Also as 0 or 1 and in words, as the web UI's own reader (pydantic)
    /// takes it.
    pub fn flag(&self, name: &'static str, otherwise: bool) -> Result<bool, Refusal> {
        let Some(value) = self.get(name) else {
            return Ok(otherwise);
        };
        let said = match value {
            Value::Bool(flag) => Some(*flag),
            Value::Number(number) => match number.as_f64() {
                Some(0.0) => Some(false),
                Some(1.0) => Some(true),
                _ => None,
            },
            Value::String(word) => match &*word.trim().to_lowercase() {
                "true" | "1" | "yes" | "y" | "on" | "t" => Some(true),
                "false" | "0" | "no" | "n" | "off" | "f" => Some(false),
                _ => None,
            },
            _ => None,
        };
        said.ok_or_else(|| Refusal::new(name, format!("{name} is true or false")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flags_are_said_in_many_ways() {
        let flag = |value: Value| {
            let fields = json!({"enable_hr": value});
            Fields(fields.as_object().unwrap().clone()).flag("enable_hr", true)
        };
        for yes in [
            json!(true),
            json!(1),
            json!(1.0),
            json!("True"),
            json!("on"),
            json!(null),
        ] {
            assert_eq!(flag(yes.clone()), Ok(true), "{yes}");
        }
        for no in [
            json!(false),
            json!(0),
            json!("0"),
            json!("no"),
            json!(" FALSE "),
        ] {
            assert_eq!(flag(no.clone()), Ok(false), "{no}");
        }
        for wrong in [json!(2), json!(""), json!("maybe"), json!([]), json!({})] {
            let refused = flag(wrong.clone()).unwrap_err();
            assert_eq!(refused.param, Some("enable_hr"), "{wrong}");
            assert_eq!(refused.message, "enable_hr is true or false");
        }
    }
}
