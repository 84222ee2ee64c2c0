package sign

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"mm-abi.org/mm/registry/sigstore"
)

// Limits of identities.
const (
	maxIdentity   = 2048 // bytes of an issuer, a subject or a pattern
	maxExtensions = 32   // of an identity
)

// maxAhead is how far this machine's clock may be behind the time of a signature.
const maxAhead = 10 * time.Minute

// certificateTries is the cost of the verification of a certificate, in signatures.
const certificateTries = 8

// Signer is who signed: a key, or an identity that a certificate states.
type Signer struct {
	ID      string // of the key; of an identity the SHA-256 of issuer and subject, in hex
	Issuer  string // of an identity; "": a key
	Subject string

	identity *sigstore.Identity
	roots    []string // digests of the trusted roots that confirm the identity
}

// TrustedIdentity is an identity whose certificates a trusted root confirms. All of its
// fields must match.
type TrustedIdentity struct {
	Root       string            // name in Policy.Roots
	Issuer     string            // of the OpenID token
	Subject    string            // address or URI
	Pattern    string            // regular expression from ^ to $ for the subject, instead of Subject
	Extensions map[string]string // values by the names of [sigstore.ExtensionNames]
	NotAfter   time.Time         // the last instant at which its signatures are accepted. Zero: no end
	Revoked    bool              // its signatures are refused, whatever else matches
}

// identity is a TrustedIdentity that was found sound.
type identity struct {
	TrustedIdentity
	name    string
	root    *sigstore.Root
	pattern *regexp.Regexp
}

// matches reports whether a certificate's identity is this one.
func (i *identity) matches(id sigstore.Identity) bool {
	if id.Issuer != i.Issuer || i.pattern == nil && id.Subject != i.Subject || i.pattern != nil && !i.pattern.MatchString(id.Subject) {
		return false
	}
	for name, want := range i.Extensions {
		if got, ok := id.Extensions[name]; !ok || got != want {
			return false
		}
	}
	return true
}

// compileIdentities checks the identities and adds their names to ids.
func (p *Policy) compileIdentities(ids map[string]string, fault func(path, format string, args ...any)) (list []identity) {
	for _, name := range slices.Sorted(maps.Keys(p.Identities)) {
		i := identity{TrustedIdentity: p.Identities[name], name: name, root: p.Roots[p.Identities[name].Root]}
		path := "identities." + name
		if _, twice := p.Keys[name]; twice {
			fault(path, "a key has the same name")
		}
		if i.root == nil {
			fault(path+".root", "unknown root %q", clip(i.Root))
		}
		if i.Issuer == "" || max(len(i.Issuer), len(i.Subject), len(i.Pattern)) > maxIdentity {
			fault(path, "want an issuer, and no text of more than %d bytes", maxIdentity)
		}
		if (i.Subject == "") == (i.Pattern == "") {
			fault(path, "want either subject or subject_pattern")
		}
		var err error
		if i.pattern, err = compileSubject(i.Pattern); err != nil {
			fault(path+".subject_pattern", "%v", err)
		}
		if len(i.Extensions) > maxExtensions {
			fault(path+".extensions", "got %d, want at most %d", len(i.Extensions), maxExtensions)
		}
		for _, e := range slices.Sorted(maps.Keys(i.Extensions)) {
			if !slices.Contains(sigstore.ExtensionNames(), e) {
				fault(path+".extensions", "unknown extension %q, want one of %s", clip(e), strings.Join(sigstore.ExtensionNames(), ", "))
			}
		}
		ids[name] = "@" + name
		list = append(list, i)
	}
	return list
}

// compileSubject compiles the pattern of a subject; nil for none. One that is not anchored
// would also match a subject that only contains the intended one.
func compileSubject(text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	if !strings.HasPrefix(text, "^") || !strings.HasSuffix(text, "$") || strings.HasSuffix(text, `\$`) {
		return nil, fmt.Errorf("%q does not begin with ^ and end with $", clip(text))
	}
	return regexp.Compile(`^(?:` + text + `)$`) // ^a|b$ must match the whole, too
}

// entry is a key or an identity of the policy, as rules name it.
type entry struct {
	id, name string
	identity bool
	notAfter time.Time
	revoked  bool
}

// entries returns the keys and identities of the policy that match a signer.
func (c *compiled) entries(s Signer) (list []entry) {
	if s.identity == nil {
		if k, ok := c.keys[s.ID]; ok {
			list = append(list, entry{s.ID, k.name, false, k.NotAfter, k.Revoked})
		}
		return list
	}
	for _, i := range c.identities {
		if slices.Contains(s.roots, i.root.Digest) && i.matches(*s.identity) {
			list = append(list, entry{"@" + i.name, i.name, true, i.NotAfter, i.Revoked})
		}
	}
	return list
}

// called describes a signer for a message.
func (c *compiled) called(s Signer) string {
	if s.identity != nil {
		return fmt.Sprintf("%s (issuer %s)", clip(s.Subject), clip(s.Issuer))
	}
	if k, ok := c.keys[s.ID]; ok {
		return fmt.Sprintf("key %s (%s)", k.name, s.ID)
	}
	return "key " + s.ID
}

// Names returns the names of the policy's keys and identities that match a signer, sorted.
func (v *Verifier) Names(s Signer) (names []string) {
	for _, e := range v.policy.entries(s) {
		names = append(names, e.name)
	}
	slices.Sort(names)
	return names
}

// certified returns the identity that made a bundle with a certificate.
func (v *Verifier) certified(b *sigstore.Bundle, subject digest.Digest, tries *int) (Signer, *Refusal) {
	claim, err := b.Claim()
	if err != nil {
		return Signer{}, refusal(BadCertificate, subject, "%v", err)
	}
	s := Signer{ID: identityID(claim), Issuer: claim.Issuer, Subject: claim.Subject, identity: &claim}
	why := refusal(UnknownKey, subject, "signed by %s, an identity that the trust policy does not name", v.policy.called(s))
	seen := map[string]bool{}
	for _, i := range v.policy.identities {
		if !i.matches(claim) || seen[i.root.Digest] {
			continue
		}
		seen[i.root.Digest] = true
		if *tries -= certificateTries; *tries < 0 {
			break
		}
		verified, err := b.Verify(i.root)
		switch {
		case err != nil:
			why = refusal(BadCertificate, subject, "signed in the name of %s, which the root %s does not confirm: %v", v.policy.called(s), i.Root, err)
		case verified.Times[len(verified.Times)-1].After(v.opt.Now.Add(maxAhead)):
			at := verified.Times[len(verified.Times)-1].UTC().Format(time.RFC3339)
			why = refusal(Early, subject, "signed by %s at %s, after the time of this machine, %s", v.policy.called(s), at, v.opt.Now.UTC().Format(time.RFC3339))
		default:
			s.roots = append(s.roots, i.root.Digest)
		}
	}
	if len(s.roots) == 0 {
		why.KeyID = s.ID
		return Signer{}, why
	}
	return s, nil
}

// identityID is the id of an identity: the SHA-256 of issuer and subject.
func identityID(id sigstore.Identity) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s\n%s", len(id.Issuer), id.Issuer, id.Subject))
	return hex.EncodeToString(sum[:])
}

// pairs returns how many of the sets can be represented by a name of their own (maximum
// bipartite matching): several subjects of one identity count once.
func pairs(sets [][]string) (count int) {
	holder := map[string]int{}
	var place func(i int, tried map[string]bool) bool
	place = func(i int, tried map[string]bool) bool {
		for _, name := range sets[i] {
			if tried[name] {
				continue
			}
			tried[name] = true
			if other, ok := holder[name]; !ok || place(other, tried) {
				holder[name] = i
				return true
			}
		}
		return false
	}
	for i := range sets {
		if place(i, map[string]bool{}) {
			count++
		}
	}
	return count
}
