package sign

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// Reason is why an artifact was refused. The vocabulary is small and fixed, so
// that a caller can map each to its own code.
type Reason string

// The reasons. If several apply, the one nearest to an accepted signature
// comes first.
const (
	Threshold       Reason = "threshold"        // sound signatures, but too few
	Revoked         Reason = "key-revoked"      // the policy marks the key as revoked
	Expired         Reason = "key-expired"      // past the key's not_after
	Scope           Reason = "key-scope"        // a known key that no rule allows here
	Early           Reason = "signed-later"     // signed by a certificate after this machine's time
	BadCertificate  Reason = "bad-certificate"  // a known identity is named, but the trusted root does not confirm it
	BadSignature    Reason = "bad-signature"    // a known key is named, but did not sign these bytes
	OtherSubject    Reason = "other-subject"    // a known key signed another digest
	UnknownKey      Reason = "unknown-key"      // signed by none of the policy's keys and identities
	AttestationOnly Reason = "attestation-only" // signed statements, but none that releases
	Malformed       Reason = "malformed-bundle" // a bundle that cannot be read
	Unsigned        Reason = "unsigned"         // no bundle at all
	OlderForm       Reason = "older-form"       // no bundle, but a tag of cosign's older form
	NoRule          Reason = "no-rule"          // the policy does not name the repository
	AmbiguousRule   Reason = "ambiguous-rule"   // two rules match equally well
	Tampered        Reason = "tampered"         // bytes differ from their digest
	Missing         Reason = "missing"          // a manifest names missing bytes
	Hostile         Reason = "hostile"          // a manifest beyond the limits of this package
)

// Refusal is the error of everything that was checked and not accepted. Other
// errors mean that the check could not be made.
type Refusal struct {
	Reason     Reason
	Subject    digest.Digest // the requested manifest, or the blob that failed
	Repository string        // as passed to Verify; may be empty
	KeyID      string        // the key concerned, if there is one
	Detail     string        // the finding
	Hint       string        // a way out
}

// Error returns the subject, the reason and the detail.
func (r *Refusal) Error() string {
	what := slices.DeleteFunc([]string{r.Repository, r.Subject.String()}, func(s string) bool { return s == "" })
	return strings.TrimSpace(strings.Join(what, "@")+" refused: ") + " " + r.Detail
}

// Is makes errors.Is(err, &Refusal{Reason: Unsigned}) compare the reason
// alone.
func (r *Refusal) Is(target error) bool {
	t, ok := target.(*Refusal)
	return ok && t.Reason == r.Reason
}

// hint returns the default hint of a reason.
func (r Reason) hint() string {
	switch r {
	case Unsigned, AttestationOnly:
		return "ask the publisher to sign the release (mm sign, cosign sign)"
	case OlderForm:
		return "ask the publisher to sign with mm sign or cosign 3, which attach a bundle"
	case UnknownKey:
		return "if you trust the publisher, add the key to the trust file"
	case Scope, NoRule:
		return "add a rule for the repository to the trust file, if that is intended"
	case Expired:
		return "ask for a signature by the publisher's current key"
	case Revoked:
		return "ask for a release signed with a key that is not revoked"
	case Early:
		return "set the clock of this machine"
	case BadCertificate:
		return "do not use it, unless the trusted root is older than the signature: then fetch the current trusted_root.json from a source that you trust"
	case OtherSubject, BadSignature, Malformed:
		return "do not use it; ask the publisher to sign again"
	case Threshold:
		return "collect the missing signatures"
	case AmbiguousRule:
		return "make one of the two patterns more specific"
	case Tampered, Missing:
		return "fetch or assemble it again"
	}
	return "do not use it"
}
