package remote

import (
	"sync/atomic"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// EventKind says what happened to a blob.
type EventKind string

// The kinds of events. A blob has one Started, any number of Moved and Retried,
// and one of the others at its end; one that is Present may have that alone.
const (
	Started EventKind = "started" // Offset is where it begins: above 0 when it was begun before
	Moved   EventKind = "moved"   // Offset is how far it got; it may step back
	Retried EventKind = "retried" // Err is why
	Done    EventKind = "done"    // it was moved whole
	Present EventKind = "present" // it was there already
	Mounted EventKind = "mounted" // the registry took it from another of its repositories
	Failed  EventKind = "failed"  // Err is why
	Waiting EventKind = "waiting" // Err is for what; of no blob
)

// Event tells how a blob is getting on.
type Event struct {
	Kind       EventKind
	Descriptor ocispec.Descriptor
	Offset     int64 // bytes
	Err        error
}

// Report says what a push or pull did.
type Report struct {
	Manifests int   `json:"manifests"` // manifests and indexes in the artifact, referrers apart
	Referrers int   `json:"referrers"` // signatures and other manifests that refer to those
	Blobs     int   `json:"blobs"`     // configs and layers of all of them, each once
	Moved     int   `json:"moved"`     // of the blobs, those that were sent or received
	Present   int   `json:"present"`   // those that were there
	Mounted   int   `json:"mounted"`   // those that the registry took from another repository
	Left      int   `json:"left"`      // those that were not asked for
	Bytes     int64 `json:"bytes"`     // of blobs over the wire or onto the disk, repetitions included

	Tags     []string `json:"tags"`                // set by this run or found set
	SignedBy []string `json:"signed_by,omitempty"` // what the verifier of a pull returned
}

// tally counts for a [Report] from several goroutines.
type tally struct {
	moved, present, mounted, bytes atomic.Int64
}

// count notes the end of a blob.
func (t *tally) count(kind EventKind) {
	switch kind {
	case Done:
		t.moved.Add(1)
	case Present:
		t.present.Add(1)
	case Mounted:
		t.mounted.Add(1)
	}
}

// into fills the counts in.
func (t *tally) into(r *Report) {
	r.Moved, r.Present, r.Mounted = int(t.moved.Load()), int(t.present.Load()), int(t.mounted.Load())
	r.Bytes = t.bytes.Load()
}
