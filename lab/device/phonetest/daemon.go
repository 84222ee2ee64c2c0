package phonetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Daemon is the device's side of adb on a TCP port.
type Daemon struct {
	Phone *Phone
	// Strange rejects the host's key: the device stays unauthorized.
	Strange bool
	// Version is the version of the protocol; if zero, the newest.
	Version uint32

	listener net.Listener
	cancel   context.CancelFunc
	done     sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]bool
}

// Start listens on a free local port.
func (d *Daemon) Start(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, d.cancel = context.WithCancel(ctx)
	d.listener, d.conns = l, map[net.Conn]bool{}
	d.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.mu.Lock()
			d.conns[c] = true
			d.mu.Unlock()
			d.done.Go(func() {
				d.serve(ctx, c)
				c.Close()
			})
		}
	})
	d.done.Go(func() {
		select {
		case <-ctx.Done():
		case <-d.Phone.Gone():
		}
		d.cut()
	})
	return nil
}

// Addr returns the address that it listens on.
func (d *Daemon) Addr() string { return d.listener.Addr().String() }

// cut closes the listener and all connections, as when the phone is unplugged.
func (d *Daemon) cut() {
	d.listener.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		c.Close()
	}
}

// Close closes everything and waits for it.
func (d *Daemon) Close() {
	d.cancel()
	d.done.Wait()
}

// transport is a connection of a host.
type transport struct {
	d       *Daemon
	conn    net.Conn
	checked bool
	max     int
	mu      sync.Mutex // guards writing and the table
	streams map[uint32]*stream
	next    uint32
	running sync.WaitGroup
}

func (d *Daemon) serve(ctx context.Context, c net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	version := d.Version
	if version == 0 {
		version = skipSum
	}
	t := &transport{d: d, conn: c, checked: true, max: 4096, streams: map[uint32]*stream{}}
	for {
		m, err := readMessage(c, t.checked)
		if err == nil {
			err = t.handle(ctx, m, version)
		}
		if err != nil {
			break
		}
	}
	cancel()
	c.Close()
	t.mu.Lock()
	for _, s := range t.streams {
		s.end()
	}
	t.mu.Unlock()
	t.running.Wait()
}

func (t *transport) send(m message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := t.conn.Write(m.bytes())
	return err
}

// token is the challenge that the host signs. The signature is not checked.
var token = make([]byte, 20)

func (t *transport) handle(ctx context.Context, m message, version uint32) error {
	switch m.command {
	case cnxn, auth:
		if t.d.Strange {
			return t.send(message{auth, 1, 0, token})
		}
		if m.command == cnxn {
			t.max = min(int(m.arg1), maxData)
			t.checked = min(m.arg0, version) < skipSum
		}
		if t.max <= 0 {
			return fmt.Errorf("adb: bad maximum of the host: %d bytes", t.max)
		}
		return t.send(message{cnxn, version, maxData, []byte(t.d.Phone.Banner())})
	case open:
		return t.open(ctx, m)
	}
	t.mu.Lock()
	s := t.streams[m.arg1]
	t.mu.Unlock()
	if s == nil { // closed in the meantime
		return nil
	}
	switch m.command {
	case okay:
		select {
		case s.acked <- struct{}{}:
		default:
		}
	case clse:
		s.end()
	case wrte:
		select {
		case s.in <- m.data:
		default:
			return errors.New("adb: message before acknowledgment")
		}
	}
	return nil
}

func (t *transport) open(ctx context.Context, m message) error {
	service := string(m.data)
	if n := len(service); n > 0 && service[n-1] == 0 {
		service = service[:n-1]
	}
	if !t.d.Phone.Knows(service) {
		return t.send(message{clse, 0, m.arg0, nil})
	}
	ctx, cancel := context.WithCancel(ctx)
	t.mu.Lock()
	t.next++
	s := &stream{t: t, id: t.next, host: m.arg0, in: make(chan []byte, 1), acked: make(chan struct{}, 1), closed: make(chan struct{}), cancel: cancel}
	t.streams[s.id] = s
	t.mu.Unlock()
	if err := t.send(message{okay, s.id, s.host, nil}); err != nil {
		return err
	}
	t.running.Go(func() {
		defer cancel()
		if err := t.d.Phone.Serve(ctx, service, s); errors.Is(err, ErrGone) {
			t.conn.Close()
		}
		t.send(message{clse, s.id, s.host, nil})
		t.mu.Lock()
		delete(t.streams, s.id)
		t.mu.Unlock()
		s.end()
	})
	return nil
}

// stream is a service that a host opened.
type stream struct {
	t        *transport
	id, host uint32
	in       chan []byte
	left     []byte
	acked    chan struct{}
	closed   chan struct{}
	once     sync.Once
	cancel   context.CancelFunc
}

// end makes reads and writes fail and stops what runs for the stream.
func (s *stream) end() {
	s.once.Do(func() {
		close(s.closed)
		s.cancel()
	})
}

// Read implements io.Reader. The host sends more only after data was read and acknowledged.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.left) == 0 {
		select {
		case s.left = <-s.in:
		default:
			select {
			case s.left = <-s.in:
			case <-s.closed:
				return 0, io.EOF
			}
		}
		if err := s.t.send(message{okay, s.id, s.host, nil}); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

// Write implements io.Writer. It waits for the acknowledgment of each message.
func (s *stream) Write(p []byte) (int, error) {
	for at := 0; at < len(p); {
		n := min(len(p)-at, s.t.max)
		if err := s.t.send(message{wrte, s.id, s.host, p[at : at+n]}); err != nil {
			return at, err
		}
		select {
		case <-s.acked:
		case <-s.closed:
			return at, io.ErrClosedPipe
		}
		at += n
	}
	return len(p), nil
}
