// Package lane is what the ways to a device have in common: what a command gave,
// what is known of a file there, and why a device cannot be reached. The lanes
// are device/adb and device/ssh; package device says what it wants of one.
package lane

import (
	"errors"
	"strings"
)

// Why a device cannot be reached or used. Lanes wrap them.
var (
	ErrServer       = errors.New("the adb server does not answer")
	ErrNone         = errors.New("no such device")
	ErrUnauthorized = errors.New("the device does not know this computer")
	ErrOffline      = errors.New("the device is offline")
	ErrLost         = errors.New("the connection to the device broke off")
	ErrOld          = errors.New("the device's software is too old")
	ErrUntrusted    = errors.New("the device is not the one that is known")
	ErrFile         = errors.New("the device refuses the file")
)

// Output is what a command on the device gave.
type Output struct {
	Stdout []byte
	Stderr []byte // its last bytes
	Code   int    // exit code; -1 where a signal ended it
}

// Info is what is known of a file on the device.
type Info struct {
	Exists bool
	Dir    bool
	Size   int64
	Time   int64 // of its last change, seconds since 1970, by the device's clock
}

// The most bytes that are kept of what a command writes. More of Stdout is an
// error, of Stderr the last are kept.
const (
	MaxStdout = 16 << 20
	MaxStderr = 64 << 10
)

// Tail keeps the last MaxStderr bytes of what is written to it.
type Tail struct{ kept []byte }

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - MaxStderr; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// Bytes returns what was kept.
func (t *Tail) Bytes() []byte { return t.kept }

// ErrMuch says that a command wrote more than MaxStdout bytes.
var ErrMuch = errors.New("the command wrote more than is read")

// Head keeps at most MaxStdout bytes and refuses more.
type Head struct{ kept []byte }

// Write implements io.Writer.
func (h *Head) Write(p []byte) (int, error) {
	if len(h.kept)+len(p) > MaxStdout {
		return 0, ErrMuch
	}
	h.kept = append(h.kept, p...)
	return len(p), nil
}

// Bytes returns what was kept.
func (h *Head) Bytes() []byte { return h.kept }

// Quote writes a word so that a POSIX shell reads it back as it is.
func Quote(word string) string {
	plain := word != ""
	for _, c := range word {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_-./=:@%+,", c)) {
			plain = false
			break
		}
	}
	if plain {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Command writes words as a shell's command.
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}
