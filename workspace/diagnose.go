package workspace

import (
	"errors"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/runtimes"
)

// refusals maps the reasons of registry/sign to diagnostic codes.
var refusals = map[sign.Reason]diag.Code{
	sign.Unsigned: diag.Unsigned, sign.UnknownKey: diag.WrongKey, sign.Scope: diag.KeyScope, sign.Expired: diag.KeyExpired,
	sign.Revoked: diag.KeyRevoked, sign.OtherSubject: diag.WrongSubject, sign.AttestationOnly: diag.AttestationOnly,
	sign.Malformed: diag.BadBundle, sign.BadSignature: diag.BadSignature, sign.Threshold: diag.Threshold,
	sign.NoRule: diag.NoRule, sign.AmbiguousRule: diag.AmbiguousRule, sign.Tampered: diag.Tampered, sign.Missing: diag.Tampered,
	sign.Hostile: diag.HostileInput, sign.BadCertificate: diag.BadCertificate, sign.Early: diag.ClockDiffers,
	sign.OlderForm: diag.OlderForm,
}

// RefusalCode returns the diagnostic code of a reason to refuse.
func RefusalCode(r sign.Reason) diag.Code { return refusals[r] }

// Diagnostics converts an error of a library to a diagnostic, if it has a code.
func Diagnostics(err error) (diag.List, bool) {
	if list, ok := diag.From(err); ok {
		return list, true
	}
	var list diag.List
	var refusal *sign.Refusal
	var missing *runtimes.Unavailable
	var exists *registry.TakenError
	var damaged *registry.DamagedError
	switch {
	case errors.As(err, &refusal):
		detail := refusal.Error()
		list.Add(refusals[refusal.Reason], diag.Pos{File: refusal.Repository}, detail, refusal.Hint)
	case errors.As(err, &exists):
		list.Add(diag.VersionTaken, diag.Pos{}, exists.Error(), "choose another version, or overwrite it with --force")
	case errors.As(err, &damaged):
		list.Add(diag.Corrupt, diag.Pos{File: damaged.Dir}, damaged.Err.Error(), "mm fsck --repair writes it anew from the blobs (with --layout DIR for a layout)")
	case errors.Is(err, remote.ErrReceived):
		list.Add(diag.Tampered, diag.Pos{}, err.Error(), "nothing was stored; try again, or report it to the operator of the registry")
	case errors.Is(err, artifact.ErrABI):
		list.Add(diag.UnknownABI, diag.Pos{}, err.Error(), "use a newer mm")
	case errors.Is(err, artifact.ErrManifest), errors.Is(err, remote.ErrHostile), errors.Is(err, registry.ErrArchive):
		list.Add(diag.HostileInput, diag.Pos{}, err.Error(), "do not use the artifact")
	case errors.Is(err, artifact.ErrCorrupt):
		list.Add(diag.Tampered, diag.Pos{}, err.Error(), "run mm fsck to find further damage")
	case errors.As(err, &missing):
		list.Add(diag.NoBackend, diag.Pos{}, missing.Error(), missing.Hint)
	default:
		return nil, false
	}
	return list, true
}

// Damage converts the problems of the store to diagnostics.
func Damage(report registry.FsckReport) (list diag.List) {
	for _, p := range report.Problems {
		detail := p.Detail
		if p.Ref != "" {
			detail += " (of " + p.Ref + ")"
		}
		code := diag.Corrupt
		if p.Digest != "" {
			code = diag.Tampered
			detail = p.Digest.String() + ": " + detail
		}
		list.Add(code, diag.Pos{File: p.Path}, detail, "mm fsck --repair removes damaged blobs; pull or assemble them again")
	}
	return list
}
