package worker

import (
	"bufio"
	"io"
	"strings"
	"sync"
	"unicode"
)

// The last lines that are kept of what a child writes.
const (
	keptLines = 20
	keptBytes = 400 // of one line
)

// lines are the last ones that were read. What follows the line by which Go
// tells of a library's fault are registers, which would push the library's own
// words out: it is dropped.
type lines struct {
	mu      sync.Mutex
	kept    []string
	faulted bool
}

func isFault(text string) bool {
	name, _, ok := strings.Cut(text, ": ")
	return ok && (name == "SIGABRT" || name == "SIGSEGV" || name == "SIGBUS" || name == "SIGILL" || name == "SIGFPE")
}

// read takes lines until r ends; the rest of a long one is passed over.
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

// add keeps a line, without what a terminal would act upon.
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
