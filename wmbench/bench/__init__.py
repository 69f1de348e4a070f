"""From a configuration to finished files.

Which module does what:

    a plan          plan (names -> runs), names, resolved, attack_plan, draws
    what it names   build, factories (calling plugins), prompts, published, inputs, json_rows
    null texts      nulls, null_files, split
    a run           pipeline, stages/ (one module each), workers, filters, attacking, attack_checks, attack_files
    its folder      store, jsonl, derived, packed, textset, provenance
    a detector      detector, calibrating
    its figures     measure, cost, table
    what it costs   estimate, attack_estimate, counting, deadline
    several runs    comparison, sweep, sweep_view, tune
    without runs    passages (false positives on real text), null_law (analytic p-values)
"""
