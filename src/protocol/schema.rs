//! Validation against a JSON Schema.

use boon::{
    CompileError, Compiler, ErrorKind, SchemaIndex, Schemas, SchemeUrlLoader, ValidationError,
};
use serde_json::Value;

/// The base URL of relative references in a schema. No loader is registered for its scheme.
const BASE: &str = "schema:///";

/// A compiled JSON Schema of draft 4 to 2020-12.
///
/// References to files and to URLs other than those of the drafts are errors: nothing is read or fetched.
pub struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

/// Why a value does not match.
#[derive(Debug)]
pub struct Mismatch<'a> {
    /// Where in the value: a JSON Pointer (RFC 6901), empty for the value itself.
    pub pointer: String,
    /// What does not match there.
    pub kind: &'a ErrorKind<'a, 'a>,
}

impl Schema {
    /// Compiles a schema. The error says what is wrong with it.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let mut compiler = Compiler::new();
        compiler.use_loader(Box::new(SchemeUrlLoader::new()));
        compiler.add_resource(BASE, schema.clone()).map_err(|error| error.to_string())?;
        let mut schemas = Schemas::new();
        let index = compiler.compile(BASE, &mut schemas).map_err(|error| match error {
            CompileError::ValidationError { src, .. } => {
                let mut lines = Vec::new();
                visit(&src, &mut |mismatch| {
                    lines.push(format!("{}: {}", mismatch.pointer, mismatch.kind));
                });
                lines.join("; ")
            }
            other => other.to_string(),
        })?;
        Ok(Self { schemas, index })
    }

    /// All mismatches of a value, as `describe` words them.
    pub fn mismatches<T>(&self, value: &Value, describe: impl Fn(&Mismatch<'_>) -> T) -> Vec<T> {
        let mut all = Vec::new();
        if let Err(error) = self.schemas.validate(value, self.index) {
            visit(&error, &mut |mismatch| all.push(describe(mismatch)));
        }
        all
    }
}

/// Visits the errors inside of groups. If all alternatives of an `anyOf` or `oneOf` fail, it is one error.
fn visit(error: &ValidationError<'_, '_>, each: &mut impl FnMut(&Mismatch<'_>)) {
    let is_group = matches!(
        error.kind,
        ErrorKind::Group
            | ErrorKind::Schema { .. }
            | ErrorKind::Reference { .. }
            | ErrorKind::AllOf
    );
    if is_group && !error.causes.is_empty() {
        error.causes.iter().for_each(|cause| visit(cause, each));
    } else {
        each(&Mismatch { pointer: error.instance_location.to_string(), kind: &error.kind });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, value: &Value) -> Vec<String> {
        let schema = Schema::new(schema).expect("a schema");
        schema.mismatches(value, |mismatch| format!("{}: {}", mismatch.pointer, mismatch.kind))
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
        assert!(found.iter().any(|it| it.starts_with("/a: ")), "{found:?}");
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
    fn what_is_wrong_with_a_schema_is_named() {
        let error = Schema::new(&json!({"properties": {"a": {"type": "text"}}})).err();
        assert!(error.as_deref().is_some_and(|it| it.contains("/properties/a/type")), "{error:?}");
    }
}
