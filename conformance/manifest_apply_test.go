package conformance

func runApply(e *env, op *fields) (outcome, error) {
	op.raw("manifest")
	op.flag("only_ephemeral")
	e.skipf("internal/fill is not there yet")
	return nil, nil
}
