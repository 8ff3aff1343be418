"""Train a small convolutional net on scikit-learn's handwritten digits, with augmentation.

Usage: python sample_models/digits_cnn.py --seed 0 --steps 100 --workers 2
"""

import argparse
import random

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

TRAINING_IMAGES = 1500
"""Of 1797; the others, by different writers, are the validation set."""


class Digits(Dataset):
    """Images of 8 x 8 pixels with their labels; each training image is shifted and made noisy anew."""

    def __init__(self, images, labels, *, augment: bool):
        self.images = images
        self.labels = labels
        self.augment = augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        if self.augment:
            top, left = torch.randint(0, 3, (2,)).tolist()
            image = functional.pad(image, (1, 1, 1, 1))[:, top : top + 8, left : left + 8]
            image = image + 0.1 * torch.randn(image.shape)
        return image, self.labels[index]


class ConvNet(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(2 * channels)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(2 * channels * 4 * 4, 10)

    def forward(self, images):
        x = torch.relu(self.norm1(self.conv1(images)))
        x = torch.relu(self.norm2(self.conv2(x)))
        return self.head(self.pool(x).flatten(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100, help="optimizer updates (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=0, help="data loader processes")
    parser.add_argument("--out", help="save the final weights there")
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(digits.target)
    train_set = Digits(images[:TRAINING_IMAGES], labels[:TRAINING_IMAGES], augment=True)
    valid_set = Digits(images[TRAINING_IMAGES:], labels[TRAINING_IMAGES:], augment=False)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True, num_workers=args.workers)
    valid_loader = DataLoader(valid_set, 100)

    model = ConvNet(channels=8)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

    step = 0
    while step < args.steps:
        for inputs, targets in train_loader:
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 10 == 0:
                print(f"step {step:4d}  loss {loss.item():.6f}", flush=True)
            step += 1
            if step == args.steps:
                break

    model.eval()
    total_loss = 0.0
    correct = 0
    with torch.no_grad():
        for inputs, targets in valid_loader:
            logits = model(inputs)
            total_loss += criterion(logits, targets).item() * len(targets)
            correct += (logits.argmax(1) == targets).sum().item()
    count = len(valid_set)
    print(f"validation accuracy {correct / count:.4f}  loss {total_loss / count:.9f}")

    if args.out:
        torch.save(model.state_dict(), args.out)


if __name__ == "__main__":
    main()
