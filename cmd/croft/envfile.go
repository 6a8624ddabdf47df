package main

import (
	"fmt"
	"os"
	"strings"
)

// readEnv returns the variables of the files, in their order, and of the
// assignments, which are stronger.
func readEnv(files, assignments []string) (map[string]string, error) {
	env := make(map[string]string)
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read --env-file: %w", err)
		}
		if err := parseEnvFile(name, string(data), env); err != nil {
			return nil, err
		}
	}
	for _, a := range assignments {
		k, v, ok := strings.Cut(a, "=")
		if !ok || k == "" {
			// The text is not shown: it may be a secret whose name was forgotten.
			return nil, usagef("--env takes NAME=VALUE; to pass a variable of the host use --pass-env NAME")
		}
		env[k] = v
	}
	return env, nil
}

// parseEnvFile adds the variables of one file to env: NAME=VALUE a line, the value
// taken as it is to the end of the line. Blank lines and lines that start with # are
// passed over. Quotes and $ mean themselves; no shell reads the file.
func parseEnvFile(file, text string, env map[string]string) error {
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if t := strings.TrimSpace(line); t == "" || strings.HasPrefix(t, "#") {
			continue
		}
		k, v, ok := strings.Cut(line, "=")
		if k = strings.TrimSpace(k); !ok || k == "" || strings.ContainsAny(k, " \t\x00") {
			// Not shown either.
			return usagef("%s:%d: the line is not NAME=VALUE", file, i+1)
		}
		env[k] = v
	}
	return nil
}
