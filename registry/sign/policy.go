package sign

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
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

// Policy lists the keys that may release artifacts. The zero value trusts no
// key.
type Policy struct {
	Strict  bool                  // verification may not be skipped; for the caller to honour. Zero: it may
	Default Action                // for repositories that no rule names. Zero: [Deny]
	Rules   []Rule                // the most specific matching rule applies
	Keys    map[string]TrustedKey // by the names that rules use
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
	Keys      []string // names in Policy.Keys
	Threshold int      // distinct keys that must have signed. Zero: 1
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
	return c.weigh(rule, repository, now, keyIDs)
}

// compiled is a policy that was found sound.
type compiled struct {
	fallback Action
	rules    []compiledRule
	keys     map[string]trusted // by id
}

type compiledRule struct {
	pattern   pattern
	keys      map[string]bool // ids
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
	if len(p.Rules) > maxRules || len(p.Keys) > maxKeys {
		fault("rules", "more than %d rules or %d keys", maxRules, maxKeys)
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
		if _, ok := p.Keys[name]; !ok {
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

// weigh counts the keys that rule accepts and returns why the others do not
// count.
func (c *compiled) weigh(rule *compiledRule, repository string, now time.Time, keyIDs []string) (Decision, error) {
	ids := slices.Compact(slices.Sorted(slices.Values(keyIDs)))
	if len(ids) == 0 {
		return Decision{}, refuse(Unsigned, repository, "", "no release signature")
	}
	var good []string
	faults := map[Reason]*Refusal{}
	for _, id := range ids {
		k, known := c.keys[id]
		switch {
		case !known:
			faults[UnknownKey] = refuse(UnknownKey, repository, id, "signed by key %s, which the trust policy does not know", id)
		case !rule.keys[id]:
			faults[Scope] = refuse(Scope, repository, id, "key %s (%s) may not sign for it: the rule %q allows other keys", k.name, id, rule.pattern.text)
		case k.Revoked:
			faults[Revoked] = refuse(Revoked, repository, id, "key %s (%s) is revoked", k.name, id)
		case !k.NotAfter.IsZero() && now.After(k.NotAfter):
			faults[Expired] = refuse(Expired, repository, id, "key %s (%s) counted until %s", k.name, id, k.NotAfter.UTC().Format(time.RFC3339))
		default:
			good = append(good, id)
		}
	}
	if len(good) >= rule.threshold {
		return Decision{Rule: rule.pattern.text, Keys: good}, nil
	}
	if len(good) > 0 {
		r := refuse(Threshold, repository, "", "%d of the %d signatures that the rule %q asks for", len(good), rule.threshold, rule.pattern.text)
		for _, reason := range []Reason{Revoked, Expired, Scope, UnknownKey} {
			if f := faults[reason]; f != nil {
				r.Detail += "; " + f.Detail
			}
		}
		return Decision{}, r
	}
	for _, reason := range []Reason{Revoked, Expired, Scope} {
		if f := faults[reason]; f != nil {
			return Decision{}, f
		}
	}
	return Decision{}, faults[UnknownKey]
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
