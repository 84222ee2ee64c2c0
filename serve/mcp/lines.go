package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// lines reads the messages of a client, one a line. It answers those that are not a message
// of JSON-RPC 2.0 and passes the others on, so that a bad line does not end the session.
type lines struct {
	in   *bufio.Reader
	file io.Closer
	out  io.Writer
	rest []byte // of the current message, not read yet
}

// bom is the byte order mark that some clients on Windows send first.
var bom = []byte("\ufeff")

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.next()
		if err != nil {
			return 0, err
		}
		l.rest = line
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (l *lines) Close() error { return l.file.Close() }

// next returns the next line with its newline if it is a message, or nothing after it was
// answered.
func (l *lines) next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxMessage; !long {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0 && !long) {
			return nil, err
		}
		break
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(line, bom))
	switch {
	case long:
		return nil, l.refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("message of more than %d bytes", maxMessage))
	case len(text) == 0:
		return nil, nil
	case !json.Valid(text):
		return nil, l.refuse(jsonrpc.CodeParseError, "message is not JSON")
	case text[0] == '[':
		return nil, l.refuse(jsonrpc.CodeInvalidRequest, "batches are not supported: send one message a line")
	}
	if _, err := jsonrpc.DecodeMessage(text); err != nil {
		return nil, l.refuse(jsonrpc.CodeInvalidRequest, "not a message of JSON-RPC 2.0: "+err.Error())
	}
	return append(text, '\n'), nil
}

// refuse answers a line whose id is unknown.
func (l *lines) refuse(code int64, message string) error {
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": message}})
	if err != nil {
		return err
	}
	_, err = l.out.Write(append(data, '\n'))
	return err
}

// oneWriter serializes the writers of whole lines.
type oneWriter struct {
	mu sync.Mutex
	io.WriteCloser
}

// Write implements io.Writer.
func (w *oneWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteCloser.Write(p)
}
