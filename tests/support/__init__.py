"""What tests share: small models and runs, faults, made-up results, and what each test is compared with."""
