package workspace

import (
	"context"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/workspace/home"
)

// OnAdmitted sets a hook between verification and use.
func (w *Workspace) OnAdmitted(fn func()) { w.admitted = fn }

// PlainHTTP exports plainHTTP.
func (w *Workspace) PlainHTTP(set home.Settings) []string { return w.plainHTTP(set) }

// MaxDate exports maxDate.
const MaxDate = maxDate

// The form of channel documents.
const (
	ChannelMedia   = channelMedia
	MaxChannelJunk = maxChannelJunk
	MaxSmall       = maxSmall
	MaxCandidates  = maxCandidates
)

// Candidates exports candidates.
func Candidates(ref abi.Ref, tags []string) []string { return candidates(ref, tags) }

// WriteChannel writes a document of a channel as a promotion that did not see the last
// version does.
func (w *Workspace) WriteChannel(ctx context.Context, place, name string, version int) error {
	ref, err := remote.ParseReference(place)
	if err != nil {
		return err
	}
	c, err := w.openChannel(ref, name)
	if err != nil {
		return err
	}
	s, err := w.Signer("", func(string) ([]byte, error) { return nil, nil })
	if err != nil {
		return err
	}
	_, err = c.write(ctx, ChannelDocument{Repository: c.repository, Channel: name, Version: version, Previous: "x", Digest: "sha256:" + strings.Repeat("0", 64)}, s.Key, time.Millisecond)
	return err
}

// HeadAt reads the newest document of a channel at a time of the clock.
func (w *Workspace) HeadAt(ctx context.Context, place, name string, now time.Time) error {
	ref, err := remote.ParseReference(place)
	if err != nil {
		return err
	}
	c, err := w.openChannel(ref, name)
	if err != nil {
		return err
	}
	_, err = c.head(ctx, now)
	return err
}
