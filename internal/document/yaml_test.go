package document

import (
	"errors"
	"testing"
)

// TestGuarded turns a panic of a library into an error.
func TestGuarded(t *testing.T) {
	_, err := guarded(func() (int, error) { panic("index out of range") })
	if !errors.Is(err, errParserPanic) {
		t.Errorf("guarded = %v, want %v", err, errParserPanic)
	}
	if n, err := guarded(func() (int, error) { return 1, nil }); n != 1 || err != nil {
		t.Errorf("guarded = %d, %v; want 1", n, err)
	}
}
