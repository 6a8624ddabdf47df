package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/croftdev/croft/internal/fault"
)

// codeAliases maps the codes of the reference's language to croft's. It is the only
// such table.
var codeAliases = map[string]fault.Code{
	"validation_error":  fault.InvalidArgument,
	"value_error":       fault.InvalidArgument,
	"type_error":        fault.InvalidArgument,
	"invalid_arguments": fault.InvalidArgument,
	"runtime_error":     fault.NotAvailable,
	"sink_failure":      fault.EventSinkError,
}

// anyCode in a case stands for some structured error.
const anyCode = "any"

// codeFits reports whether the code wanted by a case is the code got.
func codeFits(want string, got fault.Code) bool {
	if want == anyCode {
		return got != ""
	}
	if alias, ok := codeAliases[want]; ok {
		return got == alias
	}
	return string(got) == want
}

// matchError compares what a case says of an error with the error that came back:
// the code, and every further value with the field or detail of that name. The
// message, and where a fault stands in a manifest (loc, kind), are informative.
func matchError(e *env, want json.RawMessage, err error) string {
	var fs map[string]json.RawMessage
	if json.Unmarshal(want, &fs) != nil {
		var code string
		if json.Unmarshal(want, &code) != nil {
			return fmt.Sprintf("error: cannot read %s", want)
		}
		fs = map[string]json.RawMessage{"code": want}
	}
	if _, ok := fs["code"]; !ok {
		return fmt.Sprintf("error: the case names no code: %s", want)
	}
	fe, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return fmt.Sprintf("error: want %s, got an error without a code: %v", want, err)
	}
	for key, raw := range fs {
		switch key {
		case "message", "loc", "kind":
			continue
		}
		var w string
		if json.Unmarshal(raw, &w) != nil {
			return fmt.Sprintf("error.%s: cannot read %s", key, raw)
		}
		if diff := matchErrorField(e, key, w, fe); diff != "" {
			return diff + fmt.Sprintf(" (%v)", err)
		}
	}
	return ""
}

func matchErrorField(e *env, key, want string, fe *fault.Error) string {
	var got string
	switch key {
	case "code":
		if !codeFits(want, fe.Code) {
			return fmt.Sprintf("error.code: want %s, got %s", want, fe.Code)
		}
		return ""
	case "reason":
		got = fe.Reason
	case "cause":
		cause := fault.CodeOf(fe.Err)
		if !codeFits(want, cause) {
			return fmt.Sprintf("error.cause: want %s, got %s", want, cause)
		}
		return ""
	default:
		v, ok := fe.Details[key]
		if !ok {
			if key != "path" && key != "rel" {
				return fmt.Sprintf("error.%s: want %q, got no such detail", key, want)
			}
			v = fe.Path
		}
		got = fmt.Sprint(v)
		want, got = e.inWorkspace(want), e.inWorkspace(got)
	}
	if got != want {
		return fmt.Sprintf("error.%s: want %q, got %q", key, want, got)
	}
	return ""
}

// inWorkspace writes a path below a workspace root as the name it has there, the
// form in which errors speak of it, and leaves any other text alone.
func (e *env) inWorkspace(path string) string {
	for _, w := range e.workspaces {
		if path == w {
			return "."
		}
		if rest, ok := strings.CutPrefix(path, w+string(filepath.Separator)); ok {
			return rest
		}
	}
	return path
}
