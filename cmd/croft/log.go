package main

import (
	"fmt"
	"io"
	"log/slog"
)

// newLogger returns the logger that CROFT_LOG asks for: debug, info, warn or error.
// It writes to stderr, since stdout belongs to the command. An empty value means a silent one.
func newLogger(level string, w io.Writer) (*slog.Logger, error) {
	if level == "" {
		return slog.New(slog.DiscardHandler), nil
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("CROFT_LOG is %q; it takes debug, info, warn or error", level)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
}
