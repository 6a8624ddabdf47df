package manifest

import (
	"fmt"
	"io/fs"

	"github.com/croftdev/croft/internal/fault"
)

// Permissions is the mode of an entry as a manifest writes it: three digits, and
// whether it is a directory. There are no set-id and sticky bits: a manifest
// cannot make a file that runs with another's rights.
type Permissions struct {
	// Owner, Group and Other are 0 to 7: 4 reads, 2 writes, 1 executes.
	Owner, Group, Other uint8
	// Directory marks a directory; [Parse] sets it for entries that are one.
	Directory bool
}

// DefaultPermissions is the mode of an entry that names none (case MF-018).
var DefaultPermissions = Permissions{Owner: 7, Group: 5, Other: 5}

// The file type bits of st_mode (inode(7)); they are the same on every Unix.
const (
	typeMask = 0o170000
	typeDir  = 0o040000
)

// Mode returns the permissions as st_mode holds them: the nine bits, and the file
// type bits of a directory.
func (p Permissions) Mode() uint32 {
	mode := uint32(p.Owner)<<6 | uint32(p.Group)<<3 | uint32(p.Other)
	if p.Directory {
		mode |= typeDir
	}
	return mode
}

// Perm returns the nine permission bits.
func (p Permissions) Perm() fs.FileMode { return fs.FileMode(p.Mode()) & fs.ModePerm }

// PermissionsFromMode returns the permissions that an st_mode holds. What a
// manifest cannot say (set-id, sticky, kinds other than directory) is left out.
func PermissionsFromMode(mode uint32) Permissions {
	return Permissions{
		Owner:     uint8(mode >> 6 & 7),
		Group:     uint8(mode >> 3 & 7),
		Other:     uint8(mode & 7),
		Directory: mode&typeMask == typeDir,
	}
}

// String returns the permissions as ls(1) prints them: "drwxr-xr-x".
// [ParsePermissions] reads it back.
func (p Permissions) String() string {
	b := []byte("-rwxrwxrwx")
	if p.Directory {
		b[0] = 'd'
	}
	for i, mode := 1, p.Mode(); i < len(b); i++ {
		if mode&(1<<(9-i)) == 0 {
			b[i] = '-'
		}
	}
	return string(b)
}

// ParsePermissions parses permissions as ls(1) prints them: ten characters, "-" or
// "d" first, and perhaps the "+" or "@" that marks an access control list. Set-id
// and sticky letters (s, S, t, T) are read and left out; the execute bit that a
// small letter implies is kept.
//
// Octal text such as "0644" is refused: unquoted in YAML it would be a number that
// versions of YAML read differently, so the manifest knows one text form only.
// Every error is of the code fault.InvalidArgument.
func ParsePermissions(s string) (Permissions, error) {
	refuse := func(problem string) (Permissions, error) {
		return Permissions{}, &fault.Error{
			Code: fault.InvalidArgument, Op: "manifest", Reason: "permissions",
			Message: fmt.Sprintf("permissions %q: %s; write them as -rw-r--r--", s, problem), Retry: fault.RetryNo,
		}
	}
	text := s
	if len(text) == 11 && (text[10] == '+' || text[10] == '@') {
		text = text[:10]
	}
	if len(text) != 10 {
		return refuse("not ten characters long")
	}
	var mode uint32
	switch text[0] {
	case '-':
	case 'd':
		mode = typeDir
	default:
		return refuse(fmt.Sprintf("%q is not a file type that a manifest makes", text[0]))
	}
	for i := 1; i < 10; i++ {
		bit, ok := permissionLetter(text[i], i)
		if !ok {
			return refuse(fmt.Sprintf("%q has no meaning at position %d", text[i], i+1))
		}
		if bit {
			mode |= 1 << (9 - i)
		}
	}
	return PermissionsFromMode(mode), nil
}

// permissionLetter reports whether the letter c at position i of the text form
// sets that position's bit, and whether it may stand there at all.
func permissionLetter(c byte, i int) (set, ok bool) {
	if c == '-' {
		return false, true
	}
	if i%3 != 0 {
		return true, c == "xrw"[i%3]
	}
	with, without := byte('s'), byte('S')
	if i == 9 {
		with, without = 't', 'T'
	}
	return c == 'x' || c == with, c == 'x' || c == with || c == without
}
