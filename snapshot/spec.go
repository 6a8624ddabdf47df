package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/croftdev/croft/internal/fault"
)

// Kind says how a saved workspace is kept. Its value is the "type" of a Spec's JSON form.
type Kind string

// The kinds.
const (
	Tar    Kind = "local"  // one tar file per session in a directory of this machine
	None   Kind = "noop"   // nothing is saved
	Remote Kind = "remote" // kept by a client that the program supplies; not supported yet
)

// Spec says where one saved workspace is kept. It names a place and holds no secret.
type Spec struct {
	// Type is the kind; required.
	Type Kind
	// ID names the saved workspace among its kind.
	ID string
	// BasePath is the directory of a [Tar]; it is made with mode 0700 on the first save.
	BasePath string
	// ClientDependencyKey names the client of a [Remote].
	ClientDependencyKey string
}

// Durable reports whether the kind keeps anything.
func (s Spec) Durable() bool { return s.Type != None }

// ForSession returns the spec of a session: s itself, named after the session
// where it has no ID, and a [None] where s is nil.
func (s *Spec) ForSession(sessionID string) Spec {
	if s == nil {
		return Spec{Type: None, ID: sessionID}
	}
	out := *s
	if out.ID == "" {
		out.ID = sessionID
	}
	return out
}

// specJSON is the form on disk and in serialized states. Pointers tell an absent
// field from an empty one.
type specJSON struct {
	Type                *Kind   `json:"type"`
	ID                  *string `json:"id"`
	BasePath            *string `json:"base_path,omitempty"`
	ClientDependencyKey *string `json:"client_dependency_key,omitempty"`
}

// MarshalJSON writes the type, the id and the field that belongs to the kind.
func (s Spec) MarshalJSON() ([]byte, error) {
	out := specJSON{Type: &s.Type, ID: &s.ID}
	switch s.Type {
	case Tar:
		out.BasePath = &s.BasePath
	case Remote:
		out.ClientDependencyKey = &s.ClientDependencyKey
	case None:
	default:
		return nil, unknownKind(s.Type)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote. An object of an unknown kind, or
// without a field that its kind needs, is fault.InvalidArgument; fields that are
// unknown, or belong to another kind, are ignored (cases SS-045 to SS-050).
func (s *Spec) UnmarshalJSON(data []byte) error {
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || trimmed[0] != '{' {
		return invalid("snapshot must be an object with `type` and `id`", nil)
	}
	var head struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return invalid("snapshot is not valid JSON", err)
	}
	name, ok := head.Type.(string)
	if !ok {
		return invalid("snapshot `type` is missing or no text", nil)
	}
	if k := Kind(name); k != Tar && k != None && k != Remote {
		return unknownKind(k)
	}
	var in specJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return invalid("snapshot has a field of the wrong type", err)
	}
	out := Spec{Type: Kind(name)}
	if in.ID == nil {
		return invalid("snapshot `id` is missing", nil)
	}
	out.ID = *in.ID
	switch out.Type {
	case Tar:
		if in.BasePath == nil {
			return invalid("snapshot of type `local` needs `base_path`", nil)
		}
		out.BasePath = *in.BasePath
	case Remote:
		if in.ClientDependencyKey == nil {
			return invalid("snapshot of type `remote` needs `client_dependency_key`", nil)
		}
		out.ClientDependencyKey = *in.ClientDependencyKey
	}
	*s = out
	return nil
}

func unknownKind(k Kind) error {
	return invalid(fmt.Sprintf("unknown snapshot type `%.40s`: use local or noop", string(k)), nil)
}

func invalid(message string, cause error) error {
	return &fault.Error{Code: fault.InvalidArgument, Op: "snapshot", Message: message, Retry: fault.RetryNo, Err: cause}
}
