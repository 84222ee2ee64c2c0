package phonetest

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Server is a double of the adb server, which answers mm's requests as Android's server
// does.
type Server struct {
	Phones []*Phone
	// States are the states of phones that are not ready, by serial number.
	States map[string]string

	listener net.Listener
	cancel   context.CancelFunc
	done     sync.WaitGroup
}

// Start listens on a free local port.
func (s *Server) Start(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.listener = l
	s.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.done.Go(func() {
				stop := context.AfterFunc(ctx, func() { c.Close() })
				defer stop()
				s.serve(ctx, c)
				c.Close()
			})
		}
	})
	s.done.Go(func() {
		<-ctx.Done()
		l.Close()
	})
	return nil
}

// Addr returns the address that it listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close closes everything and waits for it.
func (s *Server) Close() {
	s.cancel()
	s.done.Wait()
}

// state returns the phone with a serial number and its state, or "" if unknown.
func (s *Server) state(serial string) (*Phone, string) {
	for _, p := range s.Phones {
		if p.Serial != serial {
			continue
		}
		select {
		case <-p.Gone():
			return nil, ""
		default:
		}
		if st := s.States[serial]; st != "" {
			return p, st
		}
		return p, "device"
	}
	return nil, ""
}

// serve answers the requests of a connection.
func (s *Server) serve(ctx context.Context, c net.Conn) {
	var phone *Phone
	for {
		request, err := readRequest(c)
		if err != nil {
			return
		}
		if phone != nil {
			s.service(ctx, c, phone, request)
			return
		}
		answer, p, err := s.host(request)
		if err != nil {
			fmt.Fprintf(c, "FAIL%04x%s", len(err.Error()), err)
			return
		}
		if phone = p; phone != nil {
			io.WriteString(c, "OKAY")
			continue
		}
		fmt.Fprintf(c, "OKAY%04x%s", len(answer), answer)
		return
	}
}

func (s *Server) service(ctx context.Context, c net.Conn, phone *Phone, request string) {
	if !phone.Knows(request) {
		io.WriteString(c, "FAIL0006closed")
		return
	}
	io.WriteString(c, "OKAY")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // unplugging closes the connections
		select {
		case <-phone.Gone():
			c.Close()
		case <-ctx.Done():
		}
	}()
	if strings.HasPrefix(request, "shell") { // the client writes nothing: the end of its input is its end
		go func() {
			io.Copy(io.Discard, c)
			cancel()
		}()
	}
	phone.Serve(ctx, request, c)
}

// host answers a request to the server itself, or returns the phone for the connection.
func (s *Server) host(request string) (string, *Phone, error) {
	switch {
	case request == "host:version":
		return "0029", nil, nil
	case request == "host:devices-l":
		var b strings.Builder
		for i, p := range s.Phones {
			_, state := s.state(p.Serial)
			if state == "" {
				continue
			}
			fmt.Fprintf(&b, "%-22s %s", p.Serial, state)
			if state == "device" {
				fmt.Fprintf(&b, " product:%s model:%s device:%s", p.Props["ro.product.name"], strings.ReplaceAll(p.Props["ro.product.model"], " ", "_"), p.Props["ro.product.device"])
			}
			fmt.Fprintf(&b, " transport_id:%d\n", i+1)
		}
		return b.String(), nil, nil
	}
	serial, wants := strings.CutPrefix(request, "host:transport:")
	if !wants {
		rest, ok := strings.CutPrefix(request, "host-serial:")
		at := strings.LastIndexByte(rest, ':')
		if !ok || at < 0 || rest[at:] != ":features" {
			return "", nil, fmt.Errorf("unknown host service")
		}
		serial = rest[:at]
	}
	phone, state := s.state(serial)
	switch state {
	case "device":
	case "":
		return "", nil, fmt.Errorf("device '%s' not found", serial)
	case "unauthorized":
		return "", nil, fmt.Errorf("device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set")
	default:
		return "", nil, fmt.Errorf("device %s", state)
	}
	if wants {
		return "", phone, nil
	}
	return strings.Join(phone.Features, ","), nil, nil
}

// readRequest reads a text after its length in four hex digits.
func readRequest(r io.Reader) (string, error) {
	var digits [4]byte
	if _, err := io.ReadFull(r, digits[:]); err != nil {
		return "", err
	}
	n, err := strconv.ParseUint(string(digits[:]), 16, 16)
	if err != nil {
		return "", err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r, b)
	return string(b), err
}
