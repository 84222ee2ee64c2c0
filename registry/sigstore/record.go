package sigstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"

	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
)

// record is a signature to be logged.
type record struct {
	envelope    *Envelope
	digest, sig []byte // of the signed bytes, by SHA-256
}

// record has a log state a signature and returns the entry.
func (s *Signer) record(ctx context.Context, log service, r record) (*rekor.TransparencyLogEntry, error) {
	propose, read := s.proposal, readEntry
	if log.version == 2 {
		propose, read = s.proposal2, readEntry2
	}
	body, err := propose(r)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	data, err := s.asker.ask(ctx, question{service: "Rekor", url: join(log.url, fmt.Sprintf("/api/v%d/log/entries", log.version)), kind: "application/json", body: body})
	if err != nil {
		return nil, err
	}
	e, err := read(data)
	if err == nil {
		if _, ok := s.root.logs[string(e.GetLogId().GetKeyId())]; !ok {
			err = errors.New("an entry of a log that the trusted root does not name")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("answer of the log at %s: %w", clip(log.url), err)
	}
	return e, nil
}

// proposal returns a request for Rekor v1: the envelope as text, and its verifier.
func (s *Signer) proposal(r record) ([]byte, error) {
	envelope, err := json.Marshal(map[string]any{
		"payload": r.envelope.Payload, "payloadType": r.envelope.PayloadType, "signatures": []any{map[string]any{"sig": r.sig}},
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"apiVersion": "0.0.1", "kind": "dsse", "spec": map[string]any{"proposedContent": map[string]any{
		"envelope": string(envelope), "verifiers": [][]byte{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.leaf.Raw})},
	}}})
}

// proposal2 returns a request for Rekor v2, which logs signatures over digests alone.
func (s *Signer) proposal2(r record) ([]byte, error) {
	return json.Marshal(map[string]any{"hashedRekordRequestV002": map[string]any{
		"digest": r.digest,
		"signature": map[string]any{
			"content":  r.sig,
			"verifier": map[string]any{"keyDetails": common.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256.String(), "x509Certificate": map[string]any{"rawBytes": s.leaf.Raw}},
		},
	}})
}

// readEntry2 reads an answer of Rekor v2.
func readEntry2(data []byte) (*rekor.TransparencyLogEntry, error) {
	e := &rekor.TransparencyLogEntry{}
	return e, decodeProto(data, e)
}

// answer1 is an entry as Rekor v1 returns it.
type answer1 struct {
	Body         []byte `json:"body"`
	Time         int64  `json:"integratedTime"`
	LogID        string `json:"logID"` // hex
	Index        int64  `json:"logIndex"`
	Verification struct {
		Promise []byte `json:"signedEntryTimestamp"`
		Proof   struct {
			Checkpoint string   `json:"checkpoint"`
			Hashes     []string `json:"hashes"` // hex
			Index      int64    `json:"logIndex"`
			Root       string   `json:"rootHash"` // hex
			Size       int64    `json:"treeSize"`
		} `json:"inclusionProof"`
	} `json:"verification"`
}

// readEntry converts an answer of Rekor v1: one entry by its id.
func readEntry(data []byte) (*rekor.TransparencyLogEntry, error) {
	var answer map[string]answer1
	if err := Decode(data, &answer); err != nil {
		return nil, err
	}
	if len(answer) != 1 {
		return nil, fmt.Errorf("got %d entries, want 1", len(answer))
	}
	a := answer[slices.Collect(maps.Keys(answer))[0]]
	var kind struct{ APIVersion, Kind string }
	if err := Decode(a.Body, &kind); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	p := a.Verification.Proof
	var faults []error
	unhex := func(text string) []byte {
		data, err := hex.DecodeString(text)
		faults = append(faults, err)
		return data
	}
	e := &rekor.TransparencyLogEntry{
		LogIndex: a.Index, LogId: &common.LogId{KeyId: unhex(a.LogID)}, IntegratedTime: a.Time, CanonicalizedBody: a.Body,
		KindVersion:      &rekor.KindVersion{Kind: kind.Kind, Version: kind.APIVersion},
		InclusionPromise: &rekor.InclusionPromise{SignedEntryTimestamp: a.Verification.Promise},
		InclusionProof:   &rekor.InclusionProof{LogIndex: p.Index, TreeSize: p.Size, RootHash: unhex(p.Root), Checkpoint: &rekor.Checkpoint{Envelope: p.Checkpoint}},
	}
	for _, h := range p.Hashes {
		e.InclusionProof.Hashes = append(e.InclusionProof.Hashes, unhex(h))
	}
	return e, errors.Join(faults...)
}
