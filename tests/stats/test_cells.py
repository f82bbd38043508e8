"""What is compared with what: groups, baselines and controls, and arms that a control does not change."""

from headway.config.load import load
from headway.stats.cells import matches_of


def pairs(experiment, control):
    return [(m.arm.full_name, m.baseline.full_name) for m in matches_of(experiment) if m.control == control]


def test_a_control_is_compared_with_its_own_arm_and_within_itself():
    experiment = load("head-progression").select(controls="all-global")
    found = pairs(experiment, "all-global")
    assert ("ascending-low+all-global", "ascending-low") in found
    assert ("ascending-low+all-global", "constant-low+all-global") in found


def test_an_arm_that_a_control_does_not_change_stands_for_itself():
    experiment = load("data-lane").select(controls="positions-outside-lane")
    idle = {arm.name for arm in experiment.arms if arm.is_no_op and arm.control == "positions-outside-lane"}
    assert idle
    found = pairs(experiment, "positions-outside-lane")
    assert not any(
        name.partition("+")[0] in idle and name.endswith("positions-outside-lane") for p in found for name in p
    )
    assert not any(arm == baseline for arm, baseline in found)
    # Two arms that it does not change are compared once, without it.
    assert not any({arm, baseline} <= idle for arm, baseline in found)
    assert any(baseline in idle for _, baseline in found)


def test_baselines_of_groups_are_compared_unasked_where_they_do_the_same_task():
    """Parity of two bits and of three are two tasks; kinds of one text are one."""
    assert ("n2-h1", "n3-h2") not in pairs(load("heads-for-parity"), None)
    assert all(arm.split("-")[0] == baseline.split("-")[0] for arm, baseline in pairs(load("heads-for-parity"), None))
    found = pairs(load("gqa", settings=["baseline=null", "groups={a: {arms: [kv-8, kv-4], baseline: kv-8}, "
                                        "b: {arms: [kv-2, kv-1], baseline: kv-2}}"]), None)  # fmt: skip
    assert ("kv-2", "kv-8") in found
