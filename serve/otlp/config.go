package otlp

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// config is what the environment says.
type config struct {
	url      string
	headers  map[string]string
	resource []attribute
	version  string
	ratio    float64 // of the traces that begin here
	parent   bool    // a client's decision counts
}

// configOf reads the standard variables; the URL is empty if none names a collector.
func configOf(env func(string) string, version string) (c config, err error) {
	c = config{version: version, ratio: 1, parent: true}
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") || env("OTEL_TRACES_EXPORTER") == "none" {
		return c, nil
	}
	if c.url, err = endpoint(env); err != nil || c.url == "" {
		return c, err
	}
	const protocol, exporter = "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_TRACES_EXPORTER"
	if v := cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), env(protocol), "http/json"); v != "http/json" && v != "http/protobuf" {
		return c, fmt.Errorf("%s: got %q, want http/json", protocol, v)
	}
	if v := cmp.Or(env(exporter), "otlp"); v != "otlp" {
		return c, fmt.Errorf("%s: got %q, want otlp or none", exporter, v)
	}
	if c.headers, err = pairs("OTEL_EXPORTER_OTLP_HEADERS", cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_HEADERS"), env("OTEL_EXPORTER_OTLP_HEADERS"))); err != nil {
		return c, err
	}
	resource, err := pairs("OTEL_RESOURCE_ATTRIBUTES", env("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return c, err
	}
	resource["service.name"] = cmp.Or(env("OTEL_SERVICE_NAME"), resource["service.name"], "mm")
	resource["service.version"] = cmp.Or(resource["service.version"], version)
	for _, k := range slices.Sorted(maps.Keys(resource)) {
		c.resource = append(c.resource, text(k, resource[k]))
	}
	return c, c.sample(env("OTEL_TRACES_SAMPLER"), env("OTEL_TRACES_SAMPLER_ARG"))
}

// endpoint returns the address of the collector for traces.
func endpoint(env func(string) string) (string, error) {
	key := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	text := env(key)
	if text == "" {
		key = "OTEL_EXPORTER_OTLP_ENDPOINT"
		if text = env(key); text == "" {
			return "", nil
		}
		text = strings.TrimSuffix(text, "/") + "/v1/traces"
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%s: got %q, want http://HOST:PORT", key, text)
	}
	return text, nil
}

// sample reads the sampler.
func (c *config) sample(name, arg string) error {
	name, c.parent = strings.TrimPrefix(name, "parentbased_"), name == "" || strings.HasPrefix(name, "parentbased_")
	switch name {
	case "", "always_on":
	case "always_off":
		c.ratio = 0
	case "traceidratio":
		v, err := strconv.ParseFloat(cmp.Or(arg, "1"), 64)
		if err != nil || !(v >= 0 && v <= 1) {
			return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: got %q, want 0 to 1", arg)
		}
		c.ratio = v
	default:
		return fmt.Errorf("OTEL_TRACES_SAMPLER: got %q, want always_on, always_off, traceidratio, or one of them after parentbased_", name)
	}
	return nil
}

// pairs parses KEY=VALUE,…, whose values are percent-encoded.
func pairs(name, text string) (map[string]string, error) {
	out := map[string]string{}
	for _, item := range strings.Split(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		k, v, ok := strings.Cut(item, "=")
		value, err := url.PathUnescape(strings.TrimSpace(v))
		if k = strings.TrimSpace(k); !ok || k == "" || err != nil || strings.ContainsAny(value, "\r\n") {
			return nil, fmt.Errorf("%s: want KEY=VALUE, separated by commas", name)
		}
		out[k] = value
	}
	return out, nil
}
