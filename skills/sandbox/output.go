package sandbox

import (
	"errors"
	"sync"
)

// errFull ends a write that would pass the limit.
var errFull = errors.New("output limit reached")

// Buffer keeps what a guest writes, up to a limit. The write that passes the
// limit fails, as every later one, and Full is called once.
type Buffer struct {
	mu    sync.Mutex
	limit int64
	buf   []byte
	over  bool
	full  func()
}

// NewBuffer keeps limit bytes. full may be nil; it is called from the writer's
// goroutine.
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

// Bytes is what was written; of an overflow that before it.
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

// Log keeps the last [MaxLog] bytes of a guest's standard error. It fails like
// Buffer when a guest writes a thousand times as much, for that is no message.
type Log struct {
	mu    sync.Mutex
	tail  []byte
	total int64
	full  func()
}

// floodLog is how much a guest may write to its standard error, in bytes.
const floodLog = 1 << 20

// NewLog keeps the end of what is written. full may be nil.
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
	if len(p) >= MaxLog {
		l.tail = append(l.tail[:0], p[len(p)-MaxLog:]...)
		return len(p), nil
	}
	if over := len(l.tail) + len(p) - MaxLog; over > 0 {
		l.tail = append(l.tail[:0], l.tail[over:]...)
	}
	l.tail = append(l.tail, p...)
	return len(p), nil
}

// Bytes is the end of what was written.
func (l *Log) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail
}

// Over reports whether the guest wrote more than can be a message.
func (l *Log) Over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total > floodLog
}
