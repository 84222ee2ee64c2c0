package api

import (
	"net/http"
	"time"
)

// Deadlines are not supported by the recorders of tests, whose errors are ignored.

// patient limits the time for a client to take a response.
func patient(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
}

// begin limits the time for a client to send the rest of a request, which a handler may not
// read, and removes the limits of an earlier request of the connection.
func (s *Server) begin(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(s.opt.BodyTime))
	_ = c.SetWriteDeadline(time.Time{})
}

// endless removes the limit of begin: the end of the connection is then the client's.
func endless(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }
