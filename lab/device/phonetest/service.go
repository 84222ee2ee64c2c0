package phonetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"
)

// ErrService reports an unknown service.
var ErrService = errors.New("no such service")

// Knows reports whether a service exists.
func (p *Phone) Knows(service string) bool {
	return service == "sync:" || strings.HasPrefix(service, "shell:") || strings.HasPrefix(service, "shell,v2")
}

// Serve serves one service on a stream until it is done or ctx ends.
func (p *Phone) Serve(ctx context.Context, service string, stream io.ReadWriter) error {
	switch {
	case service == "sync:":
		return p.serveSync(stream)
	case strings.HasPrefix(service, "shell:"):
		p.shell(ctx, strings.TrimPrefix(service, "shell:"), stream, stream)
		return nil
	case strings.HasPrefix(service, "shell,v2"):
		_, command, _ := strings.Cut(service, ":")
		return p.serveShell(ctx, command, stream)
	}
	return ErrService
}

// packets writes packets of one kind of shell,v2.
type packets struct {
	mu   *sync.Mutex
	w    io.Writer
	kind byte
}

// Write implements io.Writer.
func (k packets) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for at := 0; at < len(b); {
		n := min(len(b)-at, 32<<10)
		head := binary.LittleEndian.AppendUint32([]byte{k.kind}, uint32(n))
		if _, err := k.w.Write(append(head, b[at:at+n]...)); err != nil {
			return at, err
		}
		at += n
	}
	return len(b), nil
}

func (p *Phone) serveShell(ctx context.Context, command string, stream io.ReadWriter) error {
	var mu sync.Mutex
	code := p.shell(ctx, command, packets{&mu, stream, 1}, packets{&mu, stream, 2})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := stream.Write([]byte{3, 1, 0, 0, 0, byte(code)})
	return err
}

// maxPath is the maximum length of a path in the sync protocol.
const maxPath = 1024

// serveSync answers requests until QUIT or the end of the stream.
func (p *Phone) serveSync(stream io.ReadWriter) error {
	for {
		var head [8]byte
		if _, err := io.ReadFull(stream, head[:]); err != nil {
			return err
		}
		id, n := string(head[:4]), binary.LittleEndian.Uint32(head[4:])
		if id == "QUIT" {
			return nil
		}
		if n > maxPath {
			return p.syncFail(stream, "path too long")
		}
		text := make([]byte, n)
		if _, err := io.ReadFull(stream, text); err != nil {
			return err
		}
		if err := p.syncRequest(stream, id, string(text)); err != nil {
			return err
		}
	}
}

func (p *Phone) syncRequest(stream io.ReadWriter, id, name string) error {
	switch id {
	case "STAT":
		return p.syncStat(stream, name)
	case "STA2", "LST2":
		return p.syncStat2(stream, id, name)
	case "SEND":
		at := strings.LastIndexByte(name, ',')
		if at < 0 {
			return p.syncFail(stream, "missing , in ID_SEND")
		}
		if _, err := strconv.ParseUint(name[at+1:], 0, 32); err != nil {
			return p.syncFail(stream, "bad mode")
		}
		return p.syncSend(stream, name[:at])
	case "SND2":
		var setup [12]byte
		if _, err := io.ReadFull(stream, setup[:]); err != nil {
			return err
		}
		if string(setup[:4]) != "SND2" || binary.LittleEndian.Uint32(setup[8:]) != 0 {
			return p.syncFail(stream, "unknown flags")
		}
		return p.syncSend(stream, name)
	case "RECV":
		return p.syncRecv(stream, name)
	case "RCV2":
		var setup [8]byte
		if _, err := io.ReadFull(stream, setup[:]); err != nil {
			return err
		}
		return p.syncRecv(stream, name)
	}
	return p.syncFail(stream, "unknown command "+id)
}

func (p *Phone) syncFail(w io.Writer, msg string) error {
	_, err := w.Write(append(binary.LittleEndian.AppendUint32([]byte("FAIL"), uint32(len(msg))), msg...))
	return err
}

// mode returns a file mode in Linux's bits.
func mode(info fs.FileInfo) uint32 {
	if info.IsDir() {
		return 0o040000 | 0o755
	}
	return 0o100000 | 0o644
}

func (p *Phone) syncStat(w io.Writer, name string) error {
	b := []byte("STAT")
	var m, size, changed uint32
	if info, err := p.stat(p.local("/", name)); err == nil {
		m, size, changed = mode(info), uint32(info.Size()), uint32(info.ModTime().Unix())
	}
	for _, v := range []uint32{m, size, changed} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	_, err := w.Write(b)
	return err
}

func (p *Phone) syncStat2(w io.Writer, id, name string) error {
	b := make([]byte, 72)
	copy(b, id)
	info, err := p.stat(p.local("/", name))
	if err != nil {
		code := uint32(13)
		if errors.Is(err, fs.ErrNotExist) {
			code = 2
		}
		binary.LittleEndian.PutUint32(b[4:], code)
	} else {
		binary.LittleEndian.PutUint32(b[24:], mode(info))
		binary.LittleEndian.PutUint32(b[28:], 1)
		binary.LittleEndian.PutUint64(b[40:], uint64(info.Size()))
		for _, at := range []int{48, 56, 64} {
			binary.LittleEndian.PutUint64(b[at:], uint64(info.ModTime().Unix()))
		}
	}
	_, err = w.Write(b)
	return err
}

// ErrGone is the end of the connection to an unplugged phone.
var ErrGone = errors.New("unplugged")

// syncSend receives a file. As adbd, it removes a partial file if the stream ends early,
// and reads to the end if it cannot write.
func (p *Phone) syncSend(stream io.ReadWriter, name string) error {
	local := p.local("/", name)
	f, failed := p.create(local, false)
	if f != nil {
		defer f.Close()
	}
	buf := make([]byte, 64<<10)
	for {
		var head [8]byte
		if _, err := io.ReadFull(stream, head[:]); err != nil {
			p.drop(local, failed)
			return err
		}
		n := binary.LittleEndian.Uint32(head[4:])
		if string(head[:4]) == "DONE" {
			break
		}
		if string(head[:4]) != "DATA" || n > uint32(len(buf)) {
			p.drop(local, failed)
			return p.syncFail(stream, "invalid data message")
		}
		if _, err := io.ReadFull(stream, buf[:n]); err != nil {
			p.drop(local, failed)
			return err
		}
		if got := p.got.Add(int64(n)); got > p.cutAt {
			if p.broken(Unplug) {
				p.unplug()
				p.drop(local, failed)
				return ErrGone
			}
			if p.once(Cut) {
				p.drop(local, failed)
				return ErrGone
			}
		}
		if failed == nil {
			failed = p.write(f, buf[:n])
		}
	}
	if failed != nil {
		p.drop(local, failed)
		return p.syncFail(stream, fmt.Sprintf("couldn't create file: %s", reason(failed)))
	}
	_, err := stream.Write([]byte("OKAY\x00\x00\x00\x00"))
	return err
}

// drop removes a partial file, unless it could not be created.
func (p *Phone) drop(local string, failed error) {
	if failed == nil || !errors.Is(failed, fs.ErrPermission) {
		p.files.Remove(local)
	}
}

func (p *Phone) syncRecv(w io.Writer, name string) error {
	f, err := p.open(p.local("/", name))
	if err != nil {
		return p.syncFail(w, "open failed: "+reason(err))
	}
	defer f.Close()
	buf := make([]byte, 8+64<<10)
	copy(buf, "DATA")
	for {
		n, err := f.Read(buf[8:])
		if n > 0 {
			binary.LittleEndian.PutUint32(buf[4:], uint32(n))
			if _, err := w.Write(buf[:8+n]); err != nil {
				return err
			}
		}
		if err != nil {
			_, err := w.Write([]byte("DONE\x00\x00\x00\x00"))
			return err
		}
	}
}
