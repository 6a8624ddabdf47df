package manifest

import _ "embed"

// Schema is the JSON Schema (2020-12) of a manifest, for editors and other
// programs. It has the fields that [Parse] knows and their types; what needs more than one field to
// see (paths that meet, escapes, limits) only Parse checks. Another program's validator that accepts
// a manifest has not checked it.
//
//go:embed schema.json
var Schema string
