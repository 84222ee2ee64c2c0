package trust

import (
	"context"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"

	"mm-abi.org/mm/registry/sign"
)

// Channel demands evidence before a repository's channel leads to an artifact.
type Channel struct {
	Name     string     `json:"name"`
	Match    string     `json:"match"`              // pattern of repositories; the first channel that matches applies
	Keys     []string   `json:"keys"`               // that may write the channel
	From     string     `json:"from,omitempty"`     // the channel that must have led to the artifact before
	Evidence []Evidence `json:"evidence,omitempty"` // demanded of the artifact
}

// Evidence is a predicate type with the keys that may sign it.
type Evidence struct {
	Type      string   `json:"type"`
	Keys      []string `json:"keys"`
	Threshold int      `json:"threshold,omitempty"` // distinct keys. Zero: 1
}

// Gate decides over a channel of a repository by one trust file.
type Gate struct {
	Channel Channel // the zero value: the trust file has none, and the keys that may release may write
	File    string
	writers *sign.Verifier
	files   []*File // one policy for each evidence
}

// Gates returns the gates of a channel, one for each trust file, and whether one of them
// names the channel.
func (b *Bench) Gates(repository, name string) (gates []Gate, named bool, err error) {
	for _, j := range b.judges {
		g := Gate{File: j.file, writers: j.verifier}
		for i, c := range j.trust.Channels {
			if c.Name != name {
				continue
			}
			v, err := j.trust.channelVerifier(Rule{Match: c.Match, Keys: c.Keys}, j.verifier.Options())
			if err != nil {
				return nil, false, fmt.Errorf("%s: channels[%d]: %w", j.file, i, err)
			}
			if !v.Covers(repository) {
				continue
			}
			g.Channel, g.writers, named = c, v, true
			for _, e := range c.Evidence {
				g.files = append(g.files, j.trust.ruled(Rule{Match: c.Match, Keys: e.Keys, Threshold: e.Threshold}))
			}
			break
		}
		gates = append(gates, g)
	}
	return gates, named, nil
}

// ruled returns the trust file with one rule alone.
func (t *File) ruled(r Rule) *File {
	one := *t
	one.Rules, one.Default, one.doc = []Rule{r}, "", nil
	return &one
}

func (t *File) channelVerifier(r Rule, opt sign.VerifyOptions) (*sign.Verifier, error) {
	p, err := t.ruled(r).Policy()
	if err != nil {
		return nil, err
	}
	opt.Warned = nil
	return sign.NewVerifier(p, opt)
}

// Writes reports why a key may not write the channel.
func (g Gate) Writes(repository, key string) error {
	return g.writers.Accept(repository, sign.Signer{ID: key})
}

// Open verifies a document of the channel.
func (g Gate) Open(ctx context.Context, repository string, data []byte, about func(sign.Attestation) (digest.Digest, error)) (sign.Attested, error) {
	return g.writers.OpenStatement(ctx, repository, data, about)
}

// Evidence returns a bench of the keys that may sign the evidence i of the channel.
func (g Gate) Evidence(i int, say func(string, ...any)) (*Bench, error) {
	return Options{Say: say}.seat(g.files[i])
}

// checkChannels returns the faults of the channels by the same rules as those of rules.
func (t *File) checkChannels() error {
	for i, c := range t.Channels {
		rules := []Rule{{Match: c.Match, Keys: c.Keys}}
		for _, e := range c.Evidence {
			rules = append(rules, Rule{Match: c.Match, Keys: e.Keys, Threshold: e.Threshold})
		}
		for _, r := range rules {
			if _, err := t.ruled(r).Policy(); err != nil {
				return fmt.Errorf("channels[%d] (%s): %w", i, c.Name, err)
			}
		}
		if c.From != "" && !slices.ContainsFunc(t.Channels, func(o Channel) bool { return o.Name == c.From }) {
			return fmt.Errorf("channels[%d] (%s): from: got %q, want the name of a channel", i, c.Name, c.From)
		}
	}
	return nil
}
