package card

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/internal/spdx"
)

// Card is a model card. It follows from the manifest, the modules and the signed
// statements of an artifact alone.
type Card struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Digest      string   `json:"digest"` // of the manifest
	Target      string   `json:"target,omitempty"`
	Description string   `json:"description"` // Empty: unknown
	License     string   `json:"license"`     // SPDX expression. Empty: unknown
	Created     string   `json:"created,omitempty"`
	Task        string   `json:"task,omitempty"` // as hubs name it
	Inputs      []string `json:"inputs"`
	Outputs     []string `json:"outputs"`
	Languages   []string `json:"languages"` // Empty: unknown
	Datasets    []string `json:"datasets"`  // Empty: unknown
	Modules     []Module `json:"modules"`
	Evaluations []Signed `json:"evaluations"`       // Empty: unknown
	Signers     []string `json:"signers"`           // ids of trusted keys that released it
	Evidence    []string `json:"evidence"`          // predicate types by trusted keys
	Texts       []string `json:"license_texts"`     // files of the artifact
	Readme      string   `json:"-"`                 // text of the publisher
	Unused      int      `json:"others,omitempty"`  // other bundles: releases, unknown keys
	Invalid     int      `json:"invalid,omitempty"` // statements by trusted keys with invalid contents
}

// Module is one module of the artifact.
type Module struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Type    string `json:"type"`
	License string `json:"license"` // Empty: unknown
	Quant   string `json:"quant,omitempty"`
	Digest  string `json:"digest"`
}

// Signed is an evaluation with the key that signed it.
type Signed struct {
	Evaluation
	Signer string `json:"signer"`
	Failed bool   `json:"failed,omitempty"`
}

// TaskOf returns the hub's name for a model with the modalities; "" without text output.
func TaskOf(inputs, outputs []string) string {
	has := func(list []string, what string) bool { return slices.Contains(list, what) }
	switch {
	case !has(outputs, "text"):
		return ""
	case len(outputs) > 1 || has(inputs, "image") && has(inputs, "audio"):
		return "any-to-any"
	case has(inputs, "image"):
		return "image-text-to-text"
	case has(inputs, "audio"):
		return "audio-text-to-text"
	case has(inputs, "video"):
		return "video-text-to-text"
	}
	return "text-generation"
}

//go:embed hub.txt
var hubText string

// hubLicenses maps SPDX identifiers in lower case to those of hubs.
var hubLicenses = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(hubText) {
		id, as, named := strings.Cut(strings.TrimSpace(line), " ")
		if !named {
			as = id
		}
		m[id] = as
	}
	return m
})

// HubLicense returns the hub's identifier of a license: other, if it has none, and unknown
// without a license.
func HubLicense(expression string) string {
	if expression == "" {
		return "unknown"
	}
	e, err := spdx.Parse(expression)
	if err != nil || len(e.IDs) != 1 {
		return "other"
	}
	if id, ok := hubLicenses()[strings.ToLower(e.String())]; ok {
		return id
	}
	return "other"
}

// figures calls each for every figure, in order.
func (c *Card) figures(each func(s Signed, t Task, f Figure)) {
	for _, s := range c.Evaluations {
		for _, t := range s.Tasks {
			for _, f := range t.Figures {
				each(s, t, f)
			}
		}
	}
}

// Slice describes the questions of a task.
func (t Task) Slice() string { return fmt.Sprintf("%s, %d-shot", t.Name, t.Shots) }
