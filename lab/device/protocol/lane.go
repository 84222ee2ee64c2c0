package protocol

import (
	"errors"
	"strings"
)

// The reasons why a device cannot be reached or used. Lanes wrap them.
var (
	ErrServer       = errors.New("adb server does not answer")
	ErrNone         = errors.New("device not found")
	ErrUnauthorized = errors.New("device has not authorized this computer")
	ErrOffline      = errors.New("device offline")
	ErrLost         = errors.New("connection to the device lost")
	ErrOld          = errors.New("device software too old")
	ErrUntrusted    = errors.New("device identity mismatch")
	ErrFile         = errors.New("device refuses the file")
)

// CommandOutput is the result of a command on the device.
type CommandOutput struct {
	Stdout []byte
	Stderr []byte // the last bytes
	Code   int    // exit code; -1 if killed by a signal
}

// Info describes a file on the device.
type Info struct {
	Exists bool
	Dir    bool
	Size   int64
	Time   int64 // last change in Unix seconds, by the device's clock
}

// The limits of the output of a command in bytes. More output is an error; of more error
// output the last bytes are kept.
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

// Bytes returns the kept bytes.
func (t *Tail) Bytes() []byte { return t.kept }

// ErrTooMuch reports more than MaxStdout bytes of output.
var ErrTooMuch = errors.New("too much output of a command")

// Head keeps up to MaxStdout bytes and refuses more.
type Head struct{ kept []byte }

// Write implements io.Writer.
func (h *Head) Write(p []byte) (int, error) {
	if len(h.kept)+len(p) > MaxStdout {
		return 0, ErrTooMuch
	}
	h.kept = append(h.kept, p...)
	return len(p), nil
}

// Bytes returns the kept bytes.
func (h *Head) Bytes() []byte { return h.kept }

// Quote quotes a word for a POSIX shell.
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

// Command returns a shell command of quoted words.
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}
