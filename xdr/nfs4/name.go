package nfs4

import "bytes"

// MaxNameLen is the longest name of a directory entry in bytes, the value of
// the attribute maxname.
const MaxNameLen = 255

// ValidName judges a component4 that a client sent (RFC 8881 section 14.5):
// OK; ErrInval if it is empty; ErrNameTooLong over MaxNameLen bytes; ErrBadChar
// if it holds '/' or NUL; ErrBadName for "." and "..". Any other bytes are
// fine, UTF-8 or not.
func ValidName(name []byte) Status {
	switch {
	case len(name) == 0:
		return ErrInval
	case len(name) > MaxNameLen:
		return ErrNameTooLong
	case bytes.IndexByte(name, '/') >= 0 || bytes.IndexByte(name, 0) >= 0:
		return ErrBadChar
	case string(name) == "." || string(name) == "..":
		return ErrBadName
	}
	return OK
}
