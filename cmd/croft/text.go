package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/croftdev/croft"
)

// readText returns the text of a file that somebody wrote for croft, such as a manifest, and the
// name it has in errors; - is standard input. A file longer than limit is read only as far as shows that.
func (a *app) readText(file, noun string, limit int64) (data []byte, name string, err error) {
	in, name := a.stdin, "stdin"
	if file != "-" {
		if in, err = os.Open(file); err != nil {
			return nil, "", fmt.Errorf("read the %s: %w", noun, err)
		}
		defer func() { _ = in.Close() }()
		name = file
	}
	data, err = io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, "", fmt.Errorf("read the %s: %w", noun, err)
	}
	return data, name, nil
}

// textFault is one fault, as `manifest check --json` and `policy check --json` print it.
type textFault struct {
	File    string     `json:"file"`
	Line    int        `json:"line"`
	Column  int        `json:"column"`
	Place   string     `json:"place"`
	Code    croft.Code `json:"code"`
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
}

// newTextFault takes the place of a fault out of its details.
func newTextFault(file string, e *croft.Error) textFault {
	f := textFault{File: file, Code: e.Code, Reason: e.Reason, Message: e.Message}
	f.Line, _ = e.Details["line"].(int)
	f.Column, _ = e.Details["column"].(int)
	f.Place, _ = e.Details["place"].(string)
	if p, ok := e.Details["problem"].(string); ok {
		f.Message = p
	}
	return f
}

func writeFaults(w io.Writer, faults []textFault, asJSON bool) error {
	if asJSON {
		if faults == nil {
			faults = []textFault{}
		}
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(faults)
	}
	for _, f := range faults {
		if _, err := fmt.Fprintf(w, "%s:%d:%d: %s: %s\n", f.File, f.Line, f.Column, f.Place, f.Message); err != nil {
			return err
		}
	}
	return nil
}
