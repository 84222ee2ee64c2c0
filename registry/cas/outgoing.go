package cas

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"

	"mm-abi.org/mm/internal/fsx"
)

// Outgoing remembers the upload session of one blob at one registry, so that
// the next process can resume it. Only one process has it open.
type Outgoing struct {
	s    *Blobs
	name string
	lock *fsx.Lock
}

// outgoingState is the content of its file.
type outgoingState struct {
	To       string        `json:"to"`
	Digest   digest.Digest `json:"digest"`
	Location string        `json:"location"` // of the session; may hold a token, so the file is the user's alone
}

// Outgoing opens the memory of the upload of blob d to the place that to names.
// Where another process is at the same upload, or the store is read-only, it is
// nil: that upload is not remembered.
func (s *Blobs) Outgoing(ctx context.Context, to string, d digest.Digest) (*Outgoing, error) {
	if s.readOnly {
		return nil, nil
	}
	sum := sha256.Sum256([]byte(to + "\x00" + string(d)))
	o := &Outgoing{s: s, name: OutgoingDir + "/" + hex.EncodeToString(sum[:16])}
	err := s.dir.MkdirAll(OutgoingDir, 0o700)
	if err == nil {
		o.lock, err = s.dir.TryLock(ctx, o.name+".lock")
	}
	if errors.Is(err, fsx.ErrLocked) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("remember the upload of %s: %w", d, err)
	}
	return o, nil
}

// Location returns the URL at which the last process's session continues, or
// "". The session may have expired: ask the registry.
func (o *Outgoing) Location() string {
	if o == nil {
		return ""
	}
	var state outgoingState
	data, err := ReadFile(o.s.dir, o.name, 64<<10)
	if err != nil || json.Unmarshal(data, &state) != nil {
		return ""
	}
	return state.Location
}

// Save records the session. It survives a kill, but not always a power cut.
func (o *Outgoing) Save(to string, d digest.Digest, location string) error {
	if o == nil {
		return nil
	}
	data, err := json.Marshal(outgoingState{To: to, Digest: d, Location: location})
	if err != nil {
		return err
	}
	return o.s.dir.WriteCache(o.name, data, 0o600)
}

// Done forgets the session.
func (o *Outgoing) Done() error {
	if o == nil {
		return nil
	}
	return IgnoreMissing(o.s.dir.Remove(o.name))
}

// Close releases it to other processes.
func (o *Outgoing) Close() error {
	if o == nil {
		return nil
	}
	if o.Location() == "" {
		return o.lock.RemoveUnlock()
	}
	return o.lock.Unlock()
}
