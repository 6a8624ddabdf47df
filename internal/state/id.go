package state

import (
	"github.com/google/uuid"

	"github.com/croftdev/croft/internal/fault"
)

// ID names a session: a UUID in its canonical text form, and the name of its
// directory. The zero value names none.
type ID string

// NewID returns an id that nothing else has.
func NewID() ID { return ID(uuid.NewString()) }

// ParseID reads an id in any of the text forms of RFC 9562 and returns it in the
// canonical one, so that an id never leads out of the sessions directory. The
// error is fault.InvalidArgument.
func ParseID(s string) (ID, error) {
	u, err := uuid.Parse(s)
	if err != nil {
		return "", &fault.Error{Code: fault.InvalidArgument, Op: "session", Retry: fault.RetryNo,
			Message: "a session id is a UUID, such as 6f1c9a52-0d1e-4c55-9d0c-3a8f1f0f8e11"}
	}
	return ID(u.String()), nil
}

// String returns the canonical text form.
func (id ID) String() string { return string(id) }
