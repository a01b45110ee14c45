//! Validation against a JSON Schema.

use boon::{
    CompileError, Compiler, ErrorKind, SchemaIndex, Schemas, SchemeUrlLoader, ValidationError,
};
use serde_json::Value;

use crate::one_line;

/// The base URL of relative references in a schema. No loader is registered for its scheme.
const BASE: &str = "schema:///";

/// A compiled JSON Schema of draft 4 to 2020-12. Nothing is read or fetched for its references.
pub struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

/// Why a value does not match.
#[derive(Debug)]
pub struct Mismatch<'a> {
    /// JSON Pointer (RFC 6901), empty for the value itself.
    pub pointer: String,
    pub kind: &'a ErrorKind<'a, 'a>,
    /// One line.
    pub reason: String,
}

impl Schema {
    /// Compiles a schema. The error says what is wrong with it, in one line.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let mut compiler = Compiler::new();
        compiler.use_loader(Box::new(SchemeUrlLoader::new()));
        compiler.add_resource(BASE, schema.clone()).map_err(|error| error.to_string())?;
        let mut schemas = Schemas::new();
        let index = compiler.compile(BASE, &mut schemas).map_err(|error| match error {
            CompileError::ValidationError { src, .. } => mismatch_line(&src),
            CompileError::LoadUrlError { url, .. } => {
                format!("{url} is outside of the schema: put it into `$defs` and refer to it there")
            }
            other => one_line(&other.to_string()),
        })?;
        Ok(Self { schemas, index })
    }

    /// All mismatches of a value, each converted by `describe`.
    pub fn mismatches<T>(&self, value: &Value, describe: impl Fn(&Mismatch<'_>) -> T) -> Vec<T> {
        let mut all = Vec::new();
        if let Err(error) = self.schemas.validate(value, self.index) {
            visit_mismatches(&error, &mut |mismatch| all.push(describe(mismatch)));
        }
        all
    }
}

/// Visits the errors inside of groups. If all alternatives of an `anyOf` or `oneOf` fail, it is one error.
fn visit_mismatches(error: &ValidationError<'_, '_>, each: &mut impl FnMut(&Mismatch<'_>)) {
    let is_group = matches!(
        error.kind,
        ErrorKind::Group
            | ErrorKind::Schema { .. }
            | ErrorKind::Reference { .. }
            | ErrorKind::AllOf
    );
    if is_group && !error.causes.is_empty() {
        error.causes.iter().for_each(|cause| visit_mismatches(cause, each));
        return;
    }
    let reason = match error.kind {
        ErrorKind::AnyOf | ErrorKind::OneOf(None) => {
            let alternatives: Vec<String> = error.causes.iter().map(mismatch_line).collect();
            format!("no alternative matches ({})", alternatives.join(" | "))
        }
        // That about a regular expression has several lines.
        _ => one_line(&error.kind.to_string()),
    };
    each(&Mismatch { pointer: error.instance_location.to_string(), kind: &error.kind, reason });
}

fn mismatch_line(error: &ValidationError<'_, '_>) -> String {
    let mut reasons = Vec::new();
    let mut add = |mismatch: &Mismatch<'_>| {
        let place = if mismatch.pointer.is_empty() { "at the top" } else { &mismatch.pointer };
        reasons.push(format!("{place}: {}", mismatch.reason));
    };
    visit_mismatches(error, &mut add);
    reasons.join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, value: &Value) -> Vec<String> {
        let schema = Schema::new(schema).expect("a schema");
        schema.mismatches(value, |mismatch| format!("{}: {}", mismatch.pointer, mismatch.reason))
    }

    #[test]
    fn references_within_the_schema_are_resolved() {
        let schema = json!({
            "$defs": {"n": {"type": "integer"}},
            "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}
        });
        assert_eq!(check(&schema, &json!({"a": 1, "b": null})), [""; 0]);
        let found = check(&schema, &json!({"a": "x", "b": "y"}));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().any(|it| it.starts_with("/a: want integer")), "{found:?}");
        let either = "/b: no alternative matches (/b: want integer, but got string | /b: want null, but got string)";
        assert!(found.iter().any(|it| it == either), "{found:?}");
    }

    #[test]
    fn references_to_files_and_servers_are_errors() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "{}").expect("written");
        for url in [
            format!("file://{}", file.path().display()),
            "http://127.0.0.1:1/a".to_owned(),
            "a.json".to_owned(),
        ] {
            assert!(Schema::new(&json!({"$ref": url})).is_err(), "{url}");
        }
    }

    #[test]
    fn invalid_schemas_are_explained_in_one_line() {
        for (schema, part) in [
            (
                json!({"properties": {"a": {"type": "text"}}}),
                "/properties/a/type: value must be one of",
            ),
            (json!({"pattern": "^(?=x)y"}), "look-around, including look-ahead"),
            (json!({"$ref": "a.json"}), "put it into `$defs`"),
        ] {
            let error = Schema::new(&schema).err().unwrap_or_default();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }
}
