package bom

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// BuildType identifies mm assemble in SLSA provenance.
const BuildType = "https://mm-abi.org/assemble/v1"

// LocalBuilder is the builder of a build outside a CI service. It claims no SLSA level.
const LocalBuilder = "https://mm-abi.org/builder/local"

// provenance is the predicate of SLSA provenance v1.
type provenance struct {
	Definition buildDefinition `json:"buildDefinition"`
	Run        runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	Type         string         `json:"buildType"`
	External     map[string]any `json:"externalParameters"`
	Internal     map[string]any `json:"internalParameters,omitempty"`
	Dependencies []dependency   `json:"resolvedDependencies,omitempty"`
}

type dependency struct {
	Name      string            `json:"name,omitempty"`
	URI       string            `json:"uri,omitempty"`
	Digest    map[string]string `json:"digest,omitempty"`
	MediaType string            `json:"mediaType,omitempty"`
}

type runDetails struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
	Metadata *runMetadata `json:"metadata,omitempty"`
}

type runMetadata struct {
	Invocation string `json:"invocationId,omitempty"`
}

// Provenance returns the SLSA provenance v1 of a build: its modules by digest and, in
// GitHub Actions, the commit, workflow and run. env looks up environment variables.
func Provenance(a Artifact, target string, opt Options, env func(string) string) ([]byte, error) {
	p := provenance{Definition: buildDefinition{
		Type: BuildType, External: map[string]any{"name": a.Name, "version": a.Version},
		Internal: map[string]any{"mm": opt.Version},
	}}
	if target != "" {
		p.Definition.External["target"] = target
	}
	for _, m := range a.Modules {
		value, ok := strings.CutPrefix(m.Digest, "sha256:")
		if !ok {
			return nil, fmt.Errorf("module %s: digest: got %q, want sha256", m.Name, m.Digest)
		}
		p.Definition.Dependencies = append(p.Definition.Dependencies, dependency{
			Name: m.Name + "@" + m.Version, Digest: map[string]string{"sha256": value}, MediaType: "application/vnd.oci.image.manifest.v1+json",
		})
	}
	p.Run.Builder.ID = LocalBuilder
	if env("GITHUB_ACTIONS") == "true" {
		if err := p.github(env); err != nil {
			return nil, err
		}
	}
	data, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return data, CheckProvenance(data)
}

// github adds what GitHub Actions states about the run.
func (p *provenance) github(env func(string) string) error {
	var missing []string
	get := func(name string) string {
		if env(name) == "" {
			missing = append(missing, name)
		}
		return env(name)
	}
	server, repository, sha, ref := get("GITHUB_SERVER_URL"), get("GITHUB_REPOSITORY"), get("GITHUB_SHA"), get("GITHUB_REF")
	workflow, run := get("GITHUB_WORKFLOW_REF"), get("GITHUB_RUN_ID")
	if missing != nil {
		return fmt.Errorf("GITHUB_ACTIONS is set without %s", strings.Join(missing, ", "))
	}
	source := "git+" + server + "/" + repository + "@" + ref
	p.Definition.External["source"] = map[string]string{"uri": source, "ref": ref}
	p.Definition.Dependencies = append([]dependency{{URI: source, Digest: map[string]string{"gitCommit": sha}}}, p.Definition.Dependencies...)
	p.Run.Builder.ID = server + "/" + workflow
	attempt := env("GITHUB_RUN_ATTEMPT")
	if attempt == "" {
		attempt = "1"
	}
	p.Run.Metadata = &runMetadata{Invocation: server + "/" + repository + "/actions/runs/" + run + "/attempts/" + attempt}
	return nil
}

// CheckProvenance reports the faults of an SLSA provenance v1: the fields that a policy
// decides by must be present, and each dependency must have a digest.
func CheckProvenance(data []byte) error {
	var p provenance
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	var faults []error
	for _, id := range []struct{ path, value string }{
		{"buildDefinition.buildType", p.Definition.Type}, {"runDetails.builder.id", p.Run.Builder.ID},
	} {
		if u, err := url.Parse(id.value); err != nil || u.Scheme == "" {
			faults = append(faults, fmt.Errorf("%s: got %q, want a URI", id.path, id.value))
		}
	}
	if p.Definition.External == nil {
		faults = append(faults, errors.New("buildDefinition.externalParameters: missing"))
	}
	for i, d := range p.Definition.Dependencies {
		if len(d.Digest) == 0 || slices.Contains(slices.Collect(maps.Values(d.Digest)), "") {
			faults = append(faults, fmt.Errorf("buildDefinition.resolvedDependencies[%d]: %q without a digest", i, d.Name+d.URI))
		}
	}
	return errors.Join(faults...)
}
