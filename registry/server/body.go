package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// rateWindow is the time over which a body must keep its rate.
const rateWindow = 30 * time.Second

// errSlow is the answer to a body that does not come.
var errSlow = fault(http.StatusRequestTimeout, "BLOB_UPLOAD_INVALID", "the body comes too slowly")

// errOvertaken is the response to a request whose upload another request
// continues.
var errOvertaken = fault(http.StatusConflict, "BLOB_UPLOAD_INVALID", "another request continues this upload")

// body is a request's body that must bring so many bytes in each window. A
// client that sends a byte now and then would hold files and a lock for ever.
type body struct {
	r      io.Reader
	rc     *http.ResponseController
	window time.Duration
	least  int64 // bytes a window

	mu    sync.Mutex
	over  bool // another request continues
	ended bool

	until time.Time
	got   int64
}

func (req *request) body() *body {
	return &body{r: req.r.Body, rc: http.NewResponseController(req.w), window: req.window,
		least: int64(float64(req.opt.MinRate) * req.window.Seconds())}
}

// Read reads the next bytes, within the window.
func (b *body) Read(p []byte) (int, error) {
	if now := time.Now(); now.After(b.until) {
		if !b.until.IsZero() && b.got < b.least {
			b.spent()
			return 0, errSlow
		}
		b.until, b.got = now.Add(b.window), 0
		// One window more, so that a client at the required rate never reaches
		// it.
		if !b.deadline(b.until.Add(b.window)) {
			return 0, errOvertaken
		}
	}
	n, err := b.r.Read(p)
	b.got += int64(n)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if !b.deadline(time.Unix(1, 0)) {
			return n, errOvertaken
		}
		b.spent()
		return n, errSlow
	}
	return n, err
}

// spent keeps the connection's deadline in the past: the server would wait for
// the rest of the body before it answers.
func (b *body) spent() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	_ = b.rc.SetReadDeadline(time.Unix(1, 0))
}

// deadline sets the connection's, unless the body was interrupted. A writer that
// has no deadlines has none.
func (b *body) deadline(at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		_ = b.rc.SetReadDeadline(at)
	}
	return !b.over
}

// interrupt makes a blocked read return.
func (b *body) interrupt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if !b.ended {
		_ = b.rc.SetReadDeadline(time.Unix(1, 0))
	}
}

// end removes the connection's deadline.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over && !b.ended {
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	b.ended = true
}

// turns records the current request of each upload: a client that returns
// after a cut must not wait until the server notices the cut.
type turns struct {
	mu sync.Mutex
	at map[string]*body
}

// take makes b the current request of the upload and interrupts the previous
// one.
func (t *turns) take(upload string, b *body) {
	t.mu.Lock()
	before := t.at[upload]
	if t.at == nil {
		t.at = map[string]*body{}
	}
	t.at[upload] = b
	t.mu.Unlock()
	if before != nil {
		before.interrupt()
	}
}

// leave ends b's turn.
func (t *turns) leave(upload string, b *body) {
	t.mu.Lock()
	if t.at[upload] == b {
		delete(t.at, upload)
	}
	t.mu.Unlock()
	b.end()
}
