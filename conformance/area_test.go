package conformance

import (
	"fmt"
	"strings"
)

// An area is one file of cases and how its calls are run. Each area lives in a file
// of its own and registers itself:
//
//	func init() {
//		register(area{
//			name: "path_policy",
//			calls: map[string]call{
//				"absolute": {fields: "path", run: runAbsolute},
//			},
//		})
//	}
//
//	func runAbsolute(e *env, op *fields) (outcome, error) {
//		path, err := root.Lexical(op.str("root")).Absolute(op.str("path"))
//		return outcome{"path": path}, err
//	}
type area struct {
	name string
	// makes lists the placeholders whose directories exist before the setup:
	// any of "ROOT", "OUTSIDE", "HOST".
	makes []string
	calls map[string]call
}

// A call is one value of op.call.
type call struct {
	// fields names, blank-separated, the outcome fields this call knows beside those
	// that every call has: ok, error, message, note, tree, outside_tree. A case that
	// wants another field fails.
	fields string
	// match says how single fields are compared where equality is not meant.
	match map[string]match
	// run reads every argument from op before it acts, calls the library and returns
	// the outcome. Its error is the operation's and becomes ok=false and error; what
	// goes wrong in the runner itself is reported with e.fatalf or e.check.
	//
	// The outcome may hold more fields than a case wants, and fields beside an error.
	run func(e *env, op *fields) (outcome, error)
}

// An outcome is what a call did, by the names of the case's expect. Values are what
// encoding/json can write, or a lazy where what is looked at depends on the case.
type outcome map[string]any

// A lazy computes a field when it is compared, given what the case names there: the
// keys of an object whose values are wanted. It must not decide by wanted values.
type lazy func(keys []string) any

var areas = map[string]area{}

// register adds an area; a name registered twice or a call without run is a
// mistake in the runner.
func register(a area) {
	if _, ok := areas[a.name]; ok {
		panic("conformance: area registered twice: " + a.name)
	}
	for name, c := range a.calls {
		if c.run == nil {
			panic(fmt.Sprintf("conformance: %s: call %s has no run", a.name, name))
		}
	}
	areas[a.name] = a
}

// knows reports whether the call may be asked for the outcome field name.
func (c call) knows(name string) bool {
	switch name {
	case "ok", "error", "message", "note", "tree", "outside_tree":
		return true
	}
	for f := range strings.FieldsSeq(c.fields) {
		if f == name {
			return true
		}
	}
	return false
}

// Areas and calls of later work. They are pending by name, never by case, and only
// while the cases are the shared ones.
var (
	pendingAreas = map[string]string{
		"apply_diff":        "patches come with the agent's tools",
		"apply_patch_input": "patches come with the agent's tools",
		"apply_patch_apply": "patches come with the agent's tools",
		"archives":          "archives from strangers come with the trees",
		"shell":             "the command tools come with the agent's tools",
		"view_image":        "the image tool comes with the agent's tools",
		"sibling":           "the sibling's behaviours come with the areas they touch",
	}
	pendingCalls = map[string]string{
		"path_policy/normalize_cwd": "the model-facing directory comes with the agent's tools",
		"path_policy/anchor":        "the model-facing directory comes with the agent's tools",
		"path_policy/model_path":    "the model-facing directory comes with the agent's tools",
		"path_policy/display":       "the model-facing directory comes with the agent's tools",
		"path_policy/resource_path": "the model-facing directory comes with the agent's tools",
	}
)

// pending returns why a call is not run yet, or "".
func pending(area, call string) string {
	if why := pendingAreas[area]; why != "" {
		return why
	}
	return pendingCalls[area+"/"+call]
}
