package sandbox

import (
	"errors"
	"slices"
	"sync"
)

// errFull fails a write that exceeds the limit.
var errFull = errors.New("output limit reached")

// Buffer keeps the output of a guest up to a limit. The write that exceeds the
// limit fails, as does every later one, and full is called once.
type Buffer struct {
	mu    sync.Mutex
	limit int64
	buf   []byte
	over  bool
	full  func()
}

// NewBuffer returns a buffer of limit bytes. full may be nil; it is called
// from the writer's goroutine.
func NewBuffer(limit int64, full func()) *Buffer { return &Buffer{limit: limit, full: full} }

// Write implements io.Writer. It stores nothing of a write that does not fit.
func (o *Buffer) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over || int64(len(o.buf))+int64(len(p)) > o.limit {
		if !o.over && o.full != nil {
			o.full()
		}
		o.over = true
		return 0, errFull
	}
	o.buf = append(o.buf, p...)
	return len(p), nil
}

// Bytes returns the output before any overflow.
func (o *Buffer) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf
}

// Over reports whether the guest wrote more than the limit.
func (o *Buffer) Over() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over
}

// Log keeps [MaxLog] bytes of a guest's standard error: a quarter from the
// beginning, where a runtime reports what failed, and the rest from the end.
// It fails like Buffer if a guest writes more than floodLog bytes.
type Log struct {
	mu    sync.Mutex
	head  []byte
	tail  []byte
	total int64
	full  func()
}

// floodLog limits what a guest may write to its standard error, in bytes.
const floodLog = 1 << 20

// NewLog returns an empty log. full may be nil.
func NewLog(full func()) *Log { return &Log{full: full} }

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total > floodLog {
		return 0, errFull
	}
	if l.total += int64(len(p)); l.total > floodLog {
		if l.full != nil {
			l.full()
		}
		return 0, errFull
	}
	n := len(p)
	first := min(n, MaxLog/4-len(l.head))
	l.head, p = append(l.head, p[:first]...), p[first:]
	const most = MaxLog - MaxLog/4
	p = p[max(0, len(p)-most):]
	if over := len(l.tail) + len(p) - most; over > 0 {
		l.tail = append(l.tail[:0], l.tail[over:]...)
	}
	l.tail = append(l.tail, p...)
	return n, nil
}

// Bytes returns the beginning and the end of the log.
func (l *Log) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Concat(l.head, l.tail)
}
