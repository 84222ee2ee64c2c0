package remote

import (
	"sync/atomic"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// EventKind is the kind of an [Event].
type EventKind string

// Kinds of events. A blob has one Started, any number of Moved and Retried,
// and one of the others at its end; a Present may be the only one.
const (
	Started EventKind = "started" // Offset is above 0 if the transfer resumes
	Moved   EventKind = "moved"   // Offset is how far it got; it may step back
	Retried EventKind = "retried" // Err is why
	Done    EventKind = "done"    // the transfer is complete
	Present EventKind = "present" // it was there already
	Mounted EventKind = "mounted" // the registry took it from another of its repositories
	Failed  EventKind = "failed"  // Err is why
	Waiting EventKind = "waiting" // Err is the reason; without a blob
	Warned  EventKind = "warned"  // Err is the warning; without a blob
)

// Event reports the progress of a blob.
type Event struct {
	Kind       EventKind
	Descriptor ocispec.Descriptor
	Offset     int64 // bytes
	Err        error
}

// Report summarizes a push or pull.
type Report struct {
	Manifests int   `json:"manifests"` // manifests and indexes in the artifact, referrers apart
	Referrers int   `json:"referrers"` // signatures and other manifests that refer to those
	Blobs     int   `json:"blobs"`     // configs and layers of all of them, each once
	Moved     int   `json:"moved"`     // of the blobs, those that were sent or received
	Present   int   `json:"present"`   // those that were there
	Mounted   int   `json:"mounted"`   // those that the registry took from another repository
	Left      int   `json:"left"`      // layers that were not requested
	Bytes     int64 `json:"bytes"`     // of blobs over the wire or onto the disk, repetitions included

	Tags     []string `json:"tags"`                // set by this run or found set
	SignedBy []string `json:"signed_by,omitempty"` // returned by the verifier of a pull
}

// tally counts for a [Report], from several goroutines.
type tally struct {
	moved, present, mounted, bytes atomic.Int64
}

// count counts the end of a blob.
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

// into copies the counts to a report.
func (t *tally) into(r *Report) {
	r.Moved, r.Present, r.Mounted = int(t.moved.Load()), int(t.present.Load()), int(t.mounted.Load())
	r.Bytes = t.bytes.Load()
}
