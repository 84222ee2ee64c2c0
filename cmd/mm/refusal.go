package main

import (
	"errors"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/runtimes"
)

// refusals gives every reason of registry/sign its diagnostic code.
var refusals = map[sign.Reason]diag.Code{
	sign.Unsigned: diag.Unsigned, sign.UnknownKey: diag.WrongKey, sign.Scope: diag.KeyScope, sign.Expired: diag.KeyExpired,
	sign.Revoked: diag.KeyRevoked, sign.OtherSubject: diag.WrongSubject, sign.AttestationOnly: diag.AttestationOnly,
	sign.Malformed: diag.BadBundle, sign.BadSignature: diag.BadSignature, sign.Threshold: diag.Threshold,
	sign.NoRule: diag.NoRule, sign.AmbiguousRule: diag.AmbiguousRule, sign.Tampered: diag.Tampered, sign.Missing: diag.Tampered,
	sign.Hostile: diag.HostileInput,
}

// asDiagnostics turns an error of the libraries that a code exists for into a
// diagnostic, so that it is printed and counted like every other.
func asDiagnostics(err error) (diag.List, bool) {
	if list, ok := diag.From(err); ok {
		return list, true
	}
	var list diag.List
	var refusal *sign.Refusal
	var missing *runtimes.Unavailable
	var taken *registry.TakenError
	switch {
	case errors.As(err, &refusal):
		detail := refusal.Error()
		list.Add(refusals[refusal.Reason], diag.Pos{File: refusal.Repository}, detail, refusal.Hint)
	case errors.As(err, &taken):
		list.Add(diag.VersionTaken, diag.Pos{}, taken.Error(), "give it another version, or move the name with --force")
	case errors.Is(err, remote.ErrReceived):
		list.Add(diag.Tampered, diag.Pos{}, err.Error(), "nothing of it was kept; try again, or ask whoever runs the registry")
	case errors.Is(err, artifact.ErrABI):
		list.Add(diag.UnknownABI, diag.Pos{}, err.Error(), "use a newer mm")
	case errors.Is(err, artifact.ErrManifest), errors.Is(err, remote.ErrHostile):
		list.Add(diag.HostileInput, diag.Pos{}, err.Error(), "do not use the artifact")
	case errors.Is(err, artifact.ErrCorrupt):
		list.Add(diag.Tampered, diag.Pos{}, err.Error(), "mm fsck says what else is damaged")
	case errors.As(err, &missing):
		list.Add(diag.NoBackend, diag.Pos{}, missing.Error(), missing.Hint)
	default:
		return nil, false
	}
	return list, true
}
