package sigstore

import "fmt"

// Check names a part of the verification.
type Check string

// The checks.
const (
	CheckLogEntry    Check = "log entry"                    // a log that the root names holds an entry about this very signature
	CheckPromise     Check = "signed entry timestamp"       // the log's promise of inclusion
	CheckInclusion   Check = "inclusion proof"              // from the entry to the root of a tree
	CheckCheckpoint  Check = "checkpoint"                   // the log's signature over that root
	CheckTime        Check = "time"                         // a log or an authority states when it was signed
	CheckCertificate Check = "certificate"                  // chain at the time of signing
	CheckTransparent Check = "signed certificate timestamp" // a log of certificates holds the certificate
	CheckIdentity    Check = "identity"                     // the certificate states exactly one
	CheckSignature   Check = "signature"
)

// Fault is the error of a check.
type Fault struct {
	Check  Check
	Detail string
}

// Error returns the check and the finding.
func (f *Fault) Error() string { return string(f.Check) + ": " + f.Detail }

// Is makes errors.Is compare the check alone.
func (f *Fault) Is(target error) bool {
	t, ok := target.(*Fault)
	return ok && t.Check == f.Check
}

// fault returns a fault of a check.
func fault(c Check, format string, args ...any) error {
	return &Fault{c, fmt.Sprintf(format, args...)}
}
