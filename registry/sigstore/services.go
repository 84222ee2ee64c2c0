package sigstore

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	trustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"

	"mm-abi.org/mm/internal/httpx"
)

// Limits of a signing configuration.
const (
	MaxServices = 256 << 10 // bytes
	maxURLs     = 64        // services of one kind
	maxURL      = 2048      // bytes of an address
)

// servicesType is the media type of signing configurations.
const servicesType = "application/vnd.dev.sigstore.signingconfig.v0.2+json"

// Services lists the addresses that take part in one signature.
type Services struct {
	authority string
	logs      []service
	stampers  []service
}

// service is an address and the version of its interface.
type service struct {
	url     string
	version uint32
}

// ParseServices reads a signing configuration (signing_config.json) and chooses the
// services that count at time now: of each operator the newest, with the highest version
// of the interface.
func ParseServices(data []byte, now time.Time) (*Services, error) {
	if len(data) > MaxServices {
		return nil, fmt.Errorf("signing configuration: got %d bytes, want at most %d", len(data), MaxServices)
	}
	var pb trustroot.SigningConfig
	if err := decodeProto(data, &pb); err != nil {
		return nil, fmt.Errorf("signing configuration: %w", err)
	}
	if t := pb.GetMediaType(); t != servicesType {
		return nil, fmt.Errorf("signing configuration: media type: got %q, want %s", clip(t), servicesType)
	}
	authorities, err := choose(pb.GetCaUrls(), nil, now, 1)
	if err != nil {
		return nil, fmt.Errorf("signing configuration: caUrls: %w", err)
	}
	s := &Services{authority: authorities[0].url}
	if s.logs, err = choose(pb.GetRekorTlogUrls(), pb.GetRekorTlogConfig(), now, 2, 1); err != nil {
		return nil, fmt.Errorf("signing configuration: rekorTlogUrls: %w", err)
	}
	if len(pb.GetTsaUrls()) > 0 {
		if s.stampers, err = choose(pb.GetTsaUrls(), pb.GetTsaConfig(), now, 1); err != nil {
			return nil, fmt.Errorf("signing configuration: tsaUrls: %w", err)
		}
	}
	if len(s.stampers) == 0 && !slices.ContainsFunc(s.logs, func(l service) bool { return l.version == 1 }) {
		return nil, errors.New("signing configuration: got no tsaUrls, want one: logs of version 2 state no time")
	}
	return s, nil
}

// choose returns the services of one kind that a selector asks for; the first one alone
// without a selector. The versions are the supported ones, the best first.
func choose(list []*trustroot.Service, selector *trustroot.ServiceConfiguration, now time.Time, versions ...uint32) ([]service, error) {
	if len(list) > maxURLs {
		return nil, fmt.Errorf("got %d, want at most %d", len(list), maxURLs)
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *trustroot.Service) int { // the newest first
		return cmp.Compare(b.GetValidFor().GetStart().GetSeconds(), a.GetValidFor().GetStart().GetSeconds())
	})
	var chosen []service
	for _, version := range versions {
		operators := map[string]bool{}
		for _, s := range list {
			if s.GetMajorApiVersion() != version || operators[s.GetOperator()] || !timeRange(s.GetValidFor()).holds(now) {
				continue
			}
			if err := checkURL(s.GetUrl()); err != nil {
				return nil, err
			}
			operators[s.GetOperator()] = true
			chosen = append(chosen, service{s.GetUrl(), version})
		}
		if len(chosen) > 0 {
			break
		}
	}
	count := 1
	switch selector.GetSelector() {
	case trustroot.ServiceSelector_ALL:
		count = len(chosen)
	case trustroot.ServiceSelector_EXACT:
		count = int(min(selector.GetCount(), maxURLs+1))
	}
	if len(chosen) == 0 || count == 0 || len(chosen) < count {
		return nil, fmt.Errorf("got %d at %s with an interface of version %v, want %d", len(chosen), now.UTC().Format(time.RFC3339), versions, max(count, 1))
	}
	return chosen[:count], nil
}

// checkURL refuses addresses to which nothing secret may be sent.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return fmt.Errorf("address of %d bytes, want at most %d", len(text), maxURL)
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return fmt.Errorf("address %q: want https://HOST/PATH", clip(text))
	case u.Scheme != "https" && (u.Scheme != "http" || !httpx.IsLoopback(u.Host)):
		return fmt.Errorf("address %q: want https; http is for this machine alone", clip(text))
	}
	return nil
}
