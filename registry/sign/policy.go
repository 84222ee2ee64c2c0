package sign

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/registry/sigstore"
)

// Action is the default of a policy for repositories without a rule.
type Action string

// The actions.
const (
	Deny Action = "deny"
	Warn Action = "warn" // accept it with a warning
)

// Limits of a policy.
const (
	maxRules   = 1024
	maxKeys    = 1024
	maxRuleKey = 64
	maxPattern = 512 // bytes
)

// Policy lists the keys and identities that may release artifacts. The zero value trusts
// none.
type Policy struct {
	Strict  bool                  // verification may not be skipped; for the caller to honour. Zero: it may
	Default Action                // for repositories that no rule names. Zero: [Deny]
	Rules   []Rule                // the most specific matching rule applies
	Keys    map[string]TrustedKey // by the names that rules use

	Roots      map[string]*sigstore.Root  // by the names that identities use
	Identities map[string]TrustedIdentity // by the names that rules use; none is that of a key
}

// Rule allows keys to sign for the repositories that match a pattern.
type Rule struct {
	// Match is a pattern of slash-separated elements, the registry's host
	// first: "registry.example/team/**". An element ** matches any number of
	// elements, including none; a * matches any run of characters within one.
	//
	// The more specific of two matching patterns is found by comparing their
	// elements from the left: a literal precedes one with *, more literal
	// characters precede fewer, and ** comes last. The owner of a prefix thus
	// decides about everything below it.
	Match     string
	Keys      []string // names in Policy.Keys and Policy.Identities
	Threshold int      // distinct ones of them that must have signed. Zero: 1
}

// TrustedKey is a public key with its expiry.
type TrustedKey struct {
	PEM      []byte    // PKIX public key, ECDSA P-256 or Ed25519
	NotAfter time.Time // the last instant at which its signatures are accepted. Zero: no end
	Revoked  bool      // its signatures are refused, whenever they were made
}

// PolicyError is a fault of a [Policy]. Path names the place as a trust file
// spells it: "rules[2].match", "keys.release".
type PolicyError struct {
	Path   string
	Detail string
}

// Error is the path and the fault.
func (e *PolicyError) Error() string { return e.Path + ": " + e.Detail }

// Validate returns every fault of the policy, each a [*PolicyError], joined.
func (p *Policy) Validate() error {
	_, faults := p.compile()
	return errors.Join(faults...)
}

// Decision is the result of [Policy.Check].
type Decision struct {
	Rule   string   // the pattern of the deciding rule; empty: no rule matches the repository
	Keys   []string // ids of the accepted keys, sorted
	Warned *Refusal // set if only [Warn] accepted the repository
}

// Check decides whether signatures by the keys with these ids, already
// verified over the subject, release an artifact of repository at the time
// now. The error is a [*Refusal] ([NoRule], [AmbiguousRule], [UnknownKey],
// [Scope], [Expired], [Revoked], [Threshold], or [Unsigned] without ids), or
// the policy's faults.
func (p *Policy) Check(repository string, now time.Time, keyIDs ...string) (Decision, error) {
	c, faults := p.compile()
	if faults != nil {
		return Decision{}, fmt.Errorf("trust policy: %w", errors.Join(faults...))
	}
	rule, refusal := c.find(repository)
	if refusal != nil {
		return Decision{}, refusal
	}
	if rule == nil {
		return c.uncovered(repository)
	}
	var signers []Signer
	for _, id := range keyIDs {
		signers = append(signers, Signer{ID: id})
	}
	good, err := c.weigh(rule, repository, now, signers)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Rule: rule.pattern.text}
	for _, s := range good {
		d.Keys = append(d.Keys, s.ID)
	}
	return d, nil
}

// compiled is a policy that was found sound.
type compiled struct {
	fallback   Action
	rules      []compiledRule
	keys       map[string]trusted // by id
	identities []identity         // by name
}

type compiledRule struct {
	pattern   pattern
	keys      map[string]bool // ids of keys, and names of identities after "@"
	threshold int
}

type trusted struct {
	TrustedKey
	name string
	key  *PublicKey
}

// compile checks everything and returns all faults.
func (p *Policy) compile() (*compiled, []error) {
	var faults []error
	fault := func(path, format string, args ...any) {
		faults = append(faults, &PolicyError{Path: path, Detail: fmt.Sprintf(format, args...)})
	}
	c := &compiled{fallback: cmp.Or(p.Default, Deny), keys: map[string]trusted{}}
	if c.fallback != Deny && c.fallback != Warn {
		fault("default", "%q is neither deny nor warn", p.Default)
	}
	if len(p.Rules) > maxRules || len(p.Keys)+len(p.Identities) > maxKeys {
		fault("rules", "more than %d rules or %d keys and identities", maxRules, maxKeys)
		return nil, faults
	}
	ids := map[string]string{} // name to id
	for _, name := range slices.Sorted(maps.Keys(p.Keys)) {
		key, err := LoadPublic(p.Keys[name].PEM)
		if err != nil {
			fault("keys."+name, "%v", err)
			continue
		}
		if twin, ok := c.keys[key.id]; ok {
			fault("keys."+name, "is the same key as %s", twin.name)
			continue
		}
		ids[name] = key.id
		c.keys[key.id] = trusted{TrustedKey: p.Keys[name], name: name, key: key}
	}
	c.identities = p.compileIdentities(ids, fault)
	seen := map[string]int{}
	for i, r := range p.Rules {
		path := fmt.Sprintf("rules[%d]", i)
		rule, err := compilePattern(r.Match)
		if err != nil {
			fault(path+".match", "%v", err)
		}
		if first, ok := seen[r.Match]; ok {
			fault(path+".match", "the same pattern as rules[%d]", first)
		}
		seen[r.Match] = i
		c.rules = append(c.rules, compiledRule{pattern: rule, keys: p.ruleKeys(r, path, ids, fault), threshold: max(r.Threshold, 1)})
		if r.Threshold < 0 || r.Threshold > max(len(r.Keys), 1) {
			fault(path+".threshold", "%d of %d keys", r.Threshold, len(r.Keys))
		}
	}
	if faults != nil {
		return nil, faults
	}
	return c, nil
}

// ruleKeys resolves the key names of a rule.
func (p *Policy) ruleKeys(r Rule, path string, ids map[string]string, fault func(path, format string, args ...any)) map[string]bool {
	if len(r.Keys) == 0 || len(r.Keys) > maxRuleKey {
		fault(path+".keys", "%d keys; a rule names 1 to %d", len(r.Keys), maxRuleKey)
		return nil
	}
	keys := map[string]bool{}
	for i, name := range r.Keys {
		at := fmt.Sprintf("%s.keys[%d]", path, i)
		_, isKey := p.Keys[name]
		if _, isIdentity := p.Identities[name]; !isKey && !isIdentity {
			fault(at, "unknown key %q", clip(name))
			continue
		}
		id := ids[name]
		if id != "" && keys[id] {
			fault(at, "%s twice", name)
		}
		keys[id] = true
	}
	return keys
}

// find returns the most specific rule that matches, or nil.
func (c *compiled) find(repository string) (*compiledRule, *Refusal) {
	elements := splitRepository(repository)
	var best, tie *compiledRule
	for i := range c.rules {
		r := &c.rules[i]
		if !r.pattern.match(elements) {
			continue
		}
		order := 1
		if best != nil {
			order = r.pattern.compare(best.pattern)
		}
		switch {
		case order > 0:
			best, tie = r, nil
		case order == 0:
			tie = r
		}
	}
	if tie != nil {
		return nil, refuse(AmbiguousRule, repository, "", "the rules %q and %q match it equally well", best.pattern.text, tie.pattern.text)
	}
	return best, nil
}

// uncovered decides over a repository that no rule names.
func (c *compiled) uncovered(repository string) (Decision, error) {
	r := refuse(NoRule, repository, "", "no rule of the trust policy names this repository")
	if c.fallback == Warn {
		return Decision{Warned: r}, nil
	}
	return Decision{}, r
}

// weigh returns the signers that rule accepts, sorted by id, or why the others do not
// count.
func (c *compiled) weigh(rule *compiledRule, repository string, now time.Time, signers []Signer) ([]Signer, error) {
	list := slices.SortedStableFunc(slices.Values(signers), func(a, b Signer) int { return strings.Compare(a.ID, b.ID) })
	if len(list) == 0 {
		return nil, refuse(Unsigned, repository, "", "no release signature")
	}
	var good []Signer
	var matched [][]string // names in the rule for each of good
	faults := map[Reason]*Refusal{}
	for _, s := range list {
		names, refused := c.permit(rule, repository, now, s)
		last := len(good) - 1
		switch {
		case refused != nil:
			faults[refused.Reason] = refused
		case last >= 0 && good[last].ID == s.ID: // signed twice, by certificates with other extensions or roots
			matched[last] = append(matched[last], names...)
		default:
			good, matched = append(good, s), append(matched, names)
		}
	}
	count := pairs(matched)
	if count >= rule.threshold {
		return good, nil
	}
	if len(good) > 0 {
		r := refuse(Threshold, repository, "", "%d of the %d signatures that the rule %q asks for", count, rule.threshold, rule.pattern.text)
		for _, reason := range []Reason{Revoked, Expired, Scope, UnknownKey} {
			if f := faults[reason]; f != nil {
				r.Detail += "; " + f.Detail
			}
		}
		return nil, r
	}
	for _, reason := range []Reason{Revoked, Expired, Scope} {
		if f := faults[reason]; f != nil {
			return nil, f
		}
	}
	return nil, faults[UnknownKey]
}

// permit returns the names in the rule under which a signer counts.
func (c *compiled) permit(rule *compiledRule, repository string, now time.Time, s Signer) ([]string, *Refusal) {
	entries := c.entries(s)
	if len(entries) == 0 {
		return nil, refuse(UnknownKey, repository, s.ID, "signed by %s, which the trust policy does not know", c.called(s))
	}
	var names []string
	var expired *Refusal
	for _, e := range entries {
		switch {
		case e.identity && e.revoked: // even if the rule names another entry that matches
			return nil, refuse(Revoked, repository, s.ID, "%s is revoked by the entry %s", c.called(s), e.name)
		case !rule.keys[e.id]:
		case e.revoked:
			return nil, refuse(Revoked, repository, s.ID, "%s is revoked", c.called(s))
		case !e.notAfter.IsZero() && now.After(e.notAfter):
			expired = refuse(Expired, repository, s.ID, "%s counted until %s", c.called(s), e.notAfter.UTC().Format(time.RFC3339))
		default:
			names = append(names, e.id)
		}
	}
	switch {
	case len(names) > 0:
		return names, nil
	case expired != nil:
		return nil, expired
	}
	return nil, refuse(Scope, repository, s.ID, "%s may not sign for it: the rule %q allows other keys", c.called(s), rule.pattern.text)
}

// refuse returns a refusal without a subject; Verify fills it in.
func refuse(reason Reason, repository, keyID, format string, args ...any) *Refusal {
	return &Refusal{
		Reason: reason, Repository: repository, KeyID: keyID,
		Detail: fmt.Sprintf(format, args...), Hint: reason.hint(),
	}
}

// splitRepository cuts a repository name into elements. Hosts have no case.
func splitRepository(repository string) []string {
	elements := strings.Split(repository, "/")
	elements[0] = strings.ToLower(elements[0])
	return elements
}
