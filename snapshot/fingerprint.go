package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
)

// FingerprintVersion names how [Hasher] makes a fingerprint. Fingerprints of
// different versions never match.
const FingerprintVersion = "workspace_tar_sha256_v1"

// Fingerprint identifies the content of a workspace at the time it was saved. Two
// workspaces with equal fingerprints hold the same files.
type Fingerprint struct {
	Value   string `json:"fingerprint"`
	Version string `json:"version"`
}

// UnmarshalJSON reads a fingerprint record. Both fields must be texts that are
// not empty, else the error is fault.InvalidArgument; further fields are dropped
// (cases SS-074 to SS-081).
func (f *Fingerprint) UnmarshalJSON(data []byte) error {
	parsed, err := ParseFingerprint(data)
	if err != nil {
		return err
	}
	*f = parsed
	return nil
}

// ParseFingerprint reads a fingerprint record from JSON, as UnmarshalJSON does.
func ParseFingerprint(data []byte) (Fingerprint, error) {
	if !json.Valid(data) {
		return Fingerprint{}, invalid("snapshot fingerprint record is not JSON", nil)
	}
	if bytes.TrimSpace(data)[0] != '{' {
		return Fingerprint{}, invalid("snapshot fingerprint record must be a JSON object", nil)
	}
	var rec struct {
		Fingerprint any `json:"fingerprint"`
		Version     any `json:"version"`
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return Fingerprint{}, invalid("snapshot fingerprint record is not JSON", err)
	}
	value, _ := rec.Fingerprint.(string)
	version, _ := rec.Version.(string)
	switch {
	case value == "":
		return Fingerprint{}, invalid("snapshot fingerprint record lacks `fingerprint`", nil)
	case version == "":
		return Fingerprint{}, invalid("snapshot fingerprint record lacks `version`", nil)
	}
	return Fingerprint{Value: value, Version: version}, nil
}

// Hasher makes the fingerprint of a workspace from the tar that a save writes:
// give it the same bytes. Packing is deterministic, so equal trees have equal
// fingerprints.
type Hasher struct{ h hash.Hash }

// NewHasher returns a Hasher that has seen nothing yet.
func NewHasher() *Hasher { return &Hasher{h: sha256.New()} }

// Write adds bytes of the tar. It never fails.
func (h *Hasher) Write(p []byte) (int, error) { return h.h.Write(p) }

// Fingerprint returns the fingerprint of what was written so far.
func (h *Hasher) Fingerprint() Fingerprint {
	return Fingerprint{Value: hex.EncodeToString(h.h.Sum(nil)), Version: FingerprintVersion}
}
