package worker

import (
	"bufio"
	"io"
	"strings"
	"sync"
	"unicode"
)

// The limits of the kept output of a child.
const (
	keptLines = 20
	keptBytes = 400 // of a line
)

// lines keeps the last lines of a child's stderr. It drops what follows the line in
// which Go reports a signal: registers, which would displace the library's own
// messages.
type lines struct {
	mu      sync.Mutex
	kept    []string
	faulted bool
}

func isFault(text string) bool {
	name, _, ok := strings.Cut(text, ": ")
	return ok && (name == "SIGABRT" || name == "SIGSEGV" || name == "SIGBUS" || name == "SIGILL" || name == "SIGFPE")
}

// read reads lines until r ends and truncates long ones.
func (l *lines) read(r io.Reader) {
	b := bufio.NewReaderSize(r, keptBytes)
	for cut := false; ; {
		part, more, err := b.ReadLine()
		if err != nil {
			return
		}
		if !cut {
			l.add(part)
		}
		cut = more
	}
}

// add keeps a line without control characters.
func (l *lines) add(line []byte) {
	text := strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(string(line), "?"))
	if strings.TrimSpace(text) == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faulted {
		return
	}
	l.faulted = isFault(text)
	if l.kept = append(l.kept, text); len(l.kept) > keptLines {
		l.kept = l.kept[1:]
	}
}

func (l *lines) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.kept...)
}
